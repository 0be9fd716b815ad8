import { expect, test } from 'vitest';
import type { Job, Prospects } from './job';
import { lifeOf } from './life';

const attempt = (started_ms: number, ended_ms: number, outcome = 'error') => ({ started_ms, ended_ms, outcome, worker: 'w', started: '', ended: '', duration_ms: 0 });
const job = (state: string, created_ms: number, attempts: Job['attempts'] = [], more: Partial<Job> = {}) => ({ state, created_ms, attempts, ...more }) as Job;
const kinds = (of: Job, prospects?: Partial<Prospects>, now = 1000) => lifeOf(of, prospects as Prospects, now)!.stretches.map((each) => `${each.kind} ${each.from}-${each.until}${each.ahead ? `>${each.ahead}` : ''}`);

test('a job waits, is tried, and waits until it is tried again', () => {
  expect(kinds(job('retrying', 0, [attempt(100, 300)], { due_ms: 5000 }))).toEqual(['waiting 0-100', 'attempt 100-300', 'backoff 300-1000>5000']);
  expect(kinds(job('dead', 0, [attempt(0, 300), attempt(400, 500)]))).toEqual(['attempt 0-300', 'backoff 300-400', 'attempt 400-500']);
});

test('what a running job has left is drawn unless it is far away', () => {
  expect(kinds(job('running', 0), { started_ms: 400, timeout_ms: 3000 })).toEqual(['waiting 0-400', 'running 400-1000>3400']);
  expect(kinds(job('running', 0), { started_ms: 400, timeout_ms: 3_600_000 })).toEqual(['waiting 0-400', 'running 400-1000']);
});

test('a replay begins another life', () => {
  expect(kinds(job('done', 500, [attempt(100, 300), attempt(700, 800, 'done')]))).toEqual(['attempt 100-300', 'replayed 500-500', 'waiting 500-700', 'attempt 700-800']);
  expect(kinds(job('waiting', 500, [attempt(100, 300)]))).toEqual(['attempt 100-300', 'replayed 500-500', 'waiting 500-1000']);
});

test('clocks that differ do no harm, and nothing is drawn of a job of which nothing is known', () => {
  expect(kinds(job('dead', 900, [attempt(950, 940)]), undefined, 100)).toEqual(['waiting 900-950', 'attempt 950-950']);
  expect(lifeOf(job('cancelled', 5), undefined, 9)).toBeUndefined();
  expect(lifeOf({ state: 'waiting', attempts: [] } as unknown as Job, undefined, 1)).toBeUndefined();
});
