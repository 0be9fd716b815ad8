import { expect, test, vi } from 'vitest';
import { Failure } from '../api/client';
import { command } from '../parts/command';
import { each } from './each';
import { letterFlags } from './letters';

test('a filter is written as the flags of a command', () => {
  const flags = letterFlags({ type: 'mail.*', where: ['payload.a=1', 'h.b=2'], reason: 'fatal', older_than: '2h' });
  expect(command('dead drop', { queue: 'mail', ...flags })).toBe("streamfleet dead drop --queue mail --type 'mail.*' --where payload.a=1 --where h.b=2 --dead-reason fatal --older-than 2h");
});

test('each is done once, and a refusal stops none of the others', async () => {
  const act = vi.fn(async (item: number) => {
    if (item % 3 === 0) throw new Failure(409, `no ${item}`);
  });
  const refused = await each([...Array(20).keys()], act);
  expect(act.mock.calls.map(([item]) => item).toSorted((one, other) => one - other)).toEqual([...Array(20).keys()]);
  expect(refused.toSorted()).toEqual(['no 0', 'no 12', 'no 15', 'no 18', 'no 3', 'no 6', 'no 9']);
});
