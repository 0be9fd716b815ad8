import { expect, test } from 'vitest';
import { comingOf, guidesOf, hasFamily } from './family';
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
