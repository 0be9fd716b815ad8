import { expect, test } from 'vitest';
import { growth, knownIn } from './memory';

const minute = 60_000;

test('growth is that of the last hour, once it is known for five minutes', () => {
  const line = Array.from({ length: 11 }, (_, nth): [number, number] => [nth * minute, 1000 + nth * 10]);
  expect(growth(line)).toBeCloseTo(600);
  expect(growth(line.slice(0, 5))).toBeUndefined();
  expect(growth([])).toBeUndefined();
  expect(growth([[0, 9e9], ...line.map(([at, bytes]): [number, number] => [at + 180 * minute, bytes])])).toBeCloseTo(600);
});

test('growth says when it will be known', () => {
  const line = Array.from({ length: 4 }, (_, nth): [number, number] => [nth * minute, 1000]);
  expect(knownIn([], 9e9)).toBe(5);
  expect(knownIn(line, 3 * minute)).toBe(2);
  expect(knownIn(line, 4.5 * minute)).toBe(1);
  expect(knownIn([[0, 1], [180 * minute, 1]], 181 * minute)).toBe(4);
});
