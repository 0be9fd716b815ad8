import { expect, test, vi } from 'vitest';
import { Failure } from '../api/client';
import { command } from '../parts/command';
import { each } from './each';
import { commandsOf, letterFlags, MOST_NAMED } from './letters';

test('a filter is written as the flags of a command', () => {
  const flags = letterFlags({ type: 'mail.*', where: ['payload.a=1', 'h.b=2'], reason: 'fatal', older_than: '2h' });
  expect(command('dead drop', { queue: 'mail', ...flags })).toBe("streamfleet dead drop --queue mail --type 'mail.*' --where payload.a=1 --where h.b=2 --dead-reason fatal --older-than 2h");
});

test('letters of several queues need a command for each queue, which names all of them', () => {
  const letters = [{ queue: 'mail', id: '1-0' }, { queue: 'news', id: '2-0' }, { queue: 'mail', id: '--all' }];
  expect(commandsOf('drop', letters, 'too old')).toBe("streamfleet dead drop --queue mail --reason 'too old' -- 1-0 --all\nstreamfleet dead drop --queue news --reason 'too old' -- 2-0");
  const many = Array.from({ length: MOST_NAMED }, (_, nth) => ({ queue: 'mail', id: `${nth}-0` }));
  expect(commandsOf('replay', many, '').split(' -- ')[1]!.split(' ')).toHaveLength(MOST_NAMED);
});

test('each is done once, and a refusal stops none of the others', async () => {
  const act = vi.fn(async (item: number) => {
    if (item % 3 === 0) throw new Failure(409, `no ${item}`);
  });
  const refused = await each([...Array(20).keys()], act);
  expect(act.mock.calls.map(([item]) => item).toSorted((one, other) => one - other)).toEqual([...Array(20).keys()]);
  expect(refused.toSorted()).toEqual(['no 0', 'no 12', 'no 15', 'no 18', 'no 3', 'no 6', 'no 9']);
});
