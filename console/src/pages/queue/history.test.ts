import { expect, test } from 'vitest';
import type { Schemas } from '../../api/client';
import { happened, historyOf, lengthsOf, spanOf } from './history';

const NOW = 1_800_000_000_000 - (1_800_000_000_000 % 900_000);
const sample = (at_ms: number, more: Partial<Schemas['Sample']>) =>
  ({ at: '', at_ms, span_ms: 60_000, waiting: 0, running: 0, delayed: 0, dead: 0, in_rooms: 0, arrived: 0, done: 0, failed: 0, retried: 0, died: 0, cancelled: 0, ...more }) as Schemas['Sample'];

test('counts are per minute, whatever the span', () => {
  const samples = [sample(NOW - 60_000, { done: 10 }), sample(NOW - 120_000, { done: 20, waiting: 3, oldest_waiting_age_ms: 9 })];
  const hour = historyOf(samples, '1h', NOW);
  expect([hour.times.length, hour.done.at(-2), hour.done.at(-3), hour.done.at(-1)]).toEqual([60, 10, 20, null]);
  const day = historyOf(samples, '24h', NOW);
  expect([day.times.length, day.done.at(-2), day.oldest.at(-2), day.waiting.at(-1)]).toEqual([96, 2, 9, null]);
  expect(historyOf([sample(NOW - 4_000_000, { done: 5 })], '1h', NOW).done.every((each) => each === null)).toBe(true);
});

test('a window without attempts is a gap, and the last one has not ended', () => {
  const spread = (p50_ms: number) => ({ count: 1, p50_ms, p95_ms: 2 * p50_ms });
  const window = (at_ms: number, p50: number) => ({ at: '', at_ms, wait: { count: 0 }, run: spread(p50) });
  const facts = { queue: 'mail', from: '', from_ms: 600_000, window_ms: 600_000 };
  const lengths = lengthsOf({ ...facts, items: [window(600_000, 5), window(1_800_000, 7), window(9_000_000, 9)] }, 1_900_000);
  expect(lengths.times).toEqual([600, 1200, 1800]);
  expect([lengths.run.p50, lengths.run.p95]).toEqual([[5, null, 7], [10, null, 14]]);
  expect(lengths.wait.p95).toEqual([null, null, null]);
  expect(lengthsOf({ ...facts, items: [] }, 0).times).toEqual([600]);
});

test('an address names a span, else it is an hour', () => {
  expect([spanOf('6h'), spanOf('9h'), spanOf(null)]).toEqual(['6h', '1h', '1h']);
});

test('workers that start one after the other are one deployment', () => {
  const worker = (version: string, started_ms: number) => ({ version, started_ms }) as Schemas['Worker'];
  const note = { at_ms: 50, what: 'pause', target: 'queue', who: 'ann', why: 'stock' } as Schemas['AuditNote'];
  const other = { ...note, what: 'dead replay' };
  const all = happened([note, other], [], [worker('2.0', 100), worker('2.0', 200), worker('2.1', 300), worker('2.0', 700_200)], 0);
  expect(all.map(({ kind, what, atMs }) => [kind, what, atMs])).toEqual([
    ['deploy', '2.0', 700_200],
    ['deploy', '2.1', 300],
    ['deploy', '2.0', 100],
    ['pause', 'queue', 50],
  ]);
});
