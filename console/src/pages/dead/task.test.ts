import { expect, test } from 'vitest';
import type { Task } from '../../api/client';
import { sharesOf, taskOf } from './task';

const replay = (more: Partial<Task>) => ({ kind: 'replay', state: 'running', filter: '--group e3673', changed_ms: 0, total: 100, looked: 40, left: 60, ...more }) as Task;

test('a bar shows every letter of a replay once', () => {
  const task = replay({ succeeded: 20, died: 5, died_otherwise: 1, needs_decision: 1, cancelled: 1, running: 10, skipped: 2 });
  const shares = sharesOf(task);
  expect(shares.map(({ key, value }) => [key, value])).toEqual([['succeeded', 20], ['died', 5], ['otherwise', 3], ['running', 10], ['skipped', 2], ['left', 60]]);
  expect(shares.reduce((sum, { value }) => sum + value, 0)).toBe(100);
  expect(sharesOf(replay({ kind: 'drop', done: 40, refused: 0, left: null })).at(-1)).toEqual({ key: 'left', value: 60, always: true });
});

test('the task of a group is the one that works on it, or was the last to', () => {
  const [other, over, runs] = [replay({ id: 'a', filter: '--group e36' }), replay({ id: 'b', state: 'done', changed_ms: 1000 }), replay({ id: 'c', filter: '--type a --group e3673 --limit 5' })];
  expect(taskOf([other, over, runs], 'e3673', 2000)?.id).toBe('c');
  expect(taskOf([other, over], 'e3673', 2000)?.id).toBe('b');
  expect(taskOf([other, over], 'e3673', 2_000_000)).toBeUndefined();
});
