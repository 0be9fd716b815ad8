import { expect, test } from 'vitest';
import type { Task } from '../../api/client';
import { againIn, paceOf, share } from './pace.svelte';

const task = (more: Partial<Task>) => ({ id: 'a', state: 'running', planned: 1000, left: 900, total: 5000, looked: 500, matched: 100, ...more }) as Task;

test('a rate is measured between two answers, and says how long the rest takes', () => {
  const from = { atMs: 0, looked: 0, matched: 0 };
  expect(paceOf(task({}), from, { atMs: 10_000, looked: 500, matched: 100 })).toEqual({ rate: 10, leftMs: 90_000 });
  expect(paceOf(task({ planned: null, left: null }), from, { atMs: 10_000, looked: 500, matched: 100 })).toEqual({ rate: 10, leftMs: 90_000 });
  expect(paceOf(task({}), from, { atMs: 10_000, looked: 0, matched: 0 })).toEqual({ rate: 0, leftMs: undefined });
  expect(paceOf(task({}), from, { atMs: 500, looked: 500, matched: 100 })).toBeUndefined();
});

test('what is done is a share of what matched, or else of what there is to look at', () => {
  expect(share(task({}))).toBe(0.1);
  expect(share(task({ planned: null, looked: 2500 }))).toBe(0.5);
  expect(share(task({ planned: 0, total: 0 }))).toBe(0);
  expect(share(task({ state: 'done', planned: 0 }))).toBe(1);
});

test('a task is asked for soon while it begins and when it is about to end', () => {
  const at = (more: Partial<Task>, leftMs?: number) => againIn(task({ created_ms: 0, ...more }), { rate: 1, leftMs }, 60_000);
  expect([at({}), at({}, 2000), at({ matched: 980 }), at({ created_ms: 58_000 })]).toEqual([1500, 500, 500, 500]);
  expect([at({ state: 'paused' }), at({ hint: 'no worker' }), at({ state: 'done' })]).toEqual([3000, 3000, 15_000]);
});
