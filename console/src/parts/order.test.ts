import { expect, test } from 'vitest';
import { sorting, type SortKey } from './order.svelte';

function sorted(keys: SortKey[], down: boolean): { rows: [SortKey, number][]; pauses: number } {
  const steps = sorting(keys.map((key, nth): [SortKey, number] => [key, nth]), ([key]) => key, down);
  for (let pauses = 0; ; pauses += 1) {
    const { done, value } = steps.next();
    if (done) return { rows: value, pauses };
  }
}

test('many rows come into order in pieces, and equal ones keep theirs', () => {
  const keys = Array.from({ length: 10_007 }, (_, nth) => (nth * 7919) % 1000);
  for (const down of [false, true]) {
    const { rows, pauses } = sorted(keys, down);
    const wanted = keys.map((key, nth): [number, number] => [key, nth]).sort(([a, m], [b, n]) => (down ? b - a : a - b) || m - n);
    expect(rows).toEqual(wanted);
    expect(pauses).toBeGreaterThan(20);
  }
});

test('what is not known comes last, in either direction', () => {
  expect(sorted([2, null, 1, undefined, 3], false).rows.map(([key]) => key)).toEqual([1, 2, 3, null, undefined]);
  expect(sorted([2, null, 1, undefined, 3], true).rows.map(([key]) => key)).toEqual([3, 2, 1, null, undefined]);
  expect(sorted([], true).rows).toEqual([]);
});
