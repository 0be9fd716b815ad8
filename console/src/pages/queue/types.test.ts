import { expect, test } from 'vitest';
import type { Schemas } from '../../api/client';
import { failedShare, typeRows } from './types';

const spread = { count: 4, p50_ms: 1, p95_ms: 2 };
const stats = (type: string | null, done: number, failed: number, count: number) => ({ type, done, failed, dead: 0, wait: spread, run: { ...spread, count } }) as Schemas['TypeStats'];

test('types in need come first, then those with the most attempts', () => {
  const known = { items: [{ type: 'idle', served: true }, { type: 'busy', served: true }], unserved_types: [{ type: 'lost', jobs: 3, unserved_for_ms: 9 }] } as unknown as Schemas['QueueTypeList'];
  const gates = [{ gate: 'type:held', state: 'paused', waiting: 2, concurrency: 5 }, { gate: 'type:quiet', state: 'open', waiting: 0 }, { gate: 'queue', state: 'open', waiting: 0 }] as Schemas['Gate'][];
  const rows = typeRows(known, [stats('busy', 3, 1, 4), stats(null, 1, 0, 1)], gates);
  expect(rows.map((row) => row.type)).toEqual(['lost', 'held', 'busy', 'idle']);
  expect(rows.map(failedShare)).toEqual([undefined, undefined, 25, undefined]);
  expect(rows[1]!.limits).toBe('5 at once');
});
