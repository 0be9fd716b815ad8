import { expect, test } from 'vitest';
import { comingOf, guidesOf, hasFamily, takenTo } from './family';
import type { Job } from './job';

const job = (more: Partial<Job>) => ({ id: 'a', state: 'running', ...more }) as Job;

test('what follows a job stands below it, each job of a chain below the one before', () => {
  const of = job({ then: [{ type: 'b' }, { type: 'c' }], terms: { on_failure: 'mourn' } });
  expect(comingOf(of, 1).map(({ type, depth, when }) => [type, depth, when])).toEqual([['b', 1, 'then'], ['c', 2, 'then'], ['mourn', 1, 'failure']]);
  expect(comingOf({ ...of, state: 'done' }, 1)).toEqual([]);
});

test('most jobs have no family', () => {
  expect(hasFamily(job({}))).toBe(false);
  expect(hasFamily(job({ children: ['b'] }))).toBe(true);
  expect(hasFamily(job({ terms: { batch: 'b' } }))).toBe(true);
});

test('lines lead from a job to all that hang below it', () => {
  const members = [0, 1, 2, 1].map((depth) => ({ depth }));
  expect(guidesOf(members)).toEqual([[], [true], [true, false], [false]]);
});

test('a chain says in which queue each of its jobs will be', () => {
  const of = job({ queue: 'orders', then: [{ type: 'a' }, { type: 'b', queue: 'mail' }, { type: 'c' }, { type: 'd', queue: 'orders' }] });
  expect(comingOf(of, 1).map(({ type, queue }) => [type, queue])).toEqual([['a', undefined], ['b', 'mail'], ['c', 'mail'], ['d', undefined]]);
});

test('a hand-over that is done says where the next job is', () => {
  const handed = { type: 'streamfleet.handover', state: 'done' as const, result: { queue: 'mail', id: 'orders.1-0' } };
  expect(takenTo(job(handed))).toEqual({ queue: 'mail', id: 'orders.1-0' });
  for (const other of [{ ...handed, state: 'retrying' as const }, { ...handed, type: 'a' }, { ...handed, result: '***' }, { ...handed, result: null }]) {
    expect(takenTo(job(other as Partial<Job>))).toBeUndefined();
  }
});
