import { expect, test, vi } from 'vitest';

const kept = new Map<string, string>();
vi.stubGlobal('sessionStorage', { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => kept.set(key, value) });

import { recent, visited } from './recent';

test('the latest pages are kept, each once, the latest first', () => {
  for (const queue of ['a', 'b', 'a']) visited(['queues', queue]);
  expect(recent()).toEqual([['queues', 'a'], ['queues', 'b']]);
  for (let nth = 0; nth < 20; nth += 1) visited(['queues', 'mail', 'jobs', `${nth}`]);
  expect(recent().length).toBe(7);
  expect(recent()[0]).toEqual(['queues', 'mail', 'jobs', '19']);
});

test('what is no list is given up', () => {
  for (const text of ['{', '7', 'null']) {
    kept.set('streamfleet.recent.', text);
    expect(recent()).toEqual([]);
  }
});
