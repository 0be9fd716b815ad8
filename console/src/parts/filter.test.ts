import { expect, test } from 'vitest';
import { filtersOf, queryOf, read, selectionOf, withFilter, write } from './filter';

test('what was typed becomes a parameter of the API, and back', () => {
  const cases: [string, string, string][] = [
    ['queue:mail', 'queue', 'mail'],
    ['payload.customer=9', 'where', 'payload.customer=9'],
    ['h.tenant=9', 'header', 'tenant=9'],
    ['id:order-', 'id_prefix', 'order-'],
    ['since:1h', 'since', '1h'],
    ['text:time out', 'text', 'time out'],
  ];
  for (const [typed, name, value] of cases) {
    expect(read(typed)).toEqual({ name, value });
    expect(write({ name, value })).toBe(typed);
  }
  expect(read('  ')).toBeUndefined();
  expect(read('time out')).toEqual({ name: 'text', value: 'time out' });
  expect(read('http://host')).toEqual({ name: 'text', value: 'http://host' });
});

test('an address keeps filters, and only those', () => {
  const filters = filtersOf(new URLSearchParams('queue=a&queue=b&where=payload.x%3D1&tab=2&type='));
  expect(queryOf(filters).toString()).toBe('queue=a&queue=b&where=payload.x%3D1');
});

test('a change gets the filters but for queue and state', () => {
  const typed = ['queue:a', 'state:dead', 'payload.x=1', 'payload.y=2', 'type:mail.*'].map((text) => read(text)!);
  expect(selectionOf(typed)).toEqual({ where: ['payload.x=1', 'payload.y=2'], type: 'mail.*' });
});

test('a filter replaces one of its name unless there can be several', () => {
  const some = [{ name: 'queue', value: 'a' }, { name: 'state', value: 'dead' }];
  expect(withFilter(some, { name: 'state', value: 'done' }).map((each) => write(each))).toEqual(['queue:a', 'state:done']);
  expect(withFilter(some, { name: 'queue', value: 'b' }).map((each) => write(each))).toEqual(['queue:a', 'state:dead', 'queue:b']);
});

test('another list has words of its own, and says what text without one is about', () => {
  const words = { who: 'who', target: 'target' };
  expect(read('who:ann', words, 'target')).toEqual({ name: 'who', value: 'ann' });
  expect(read('payload.x=1', words, 'target')).toEqual({ name: 'target', value: 'payload.x=1' });
  expect(write({ name: 'who', value: 'ann' }, words)).toBe('who:ann');
  expect(filtersOf(new URLSearchParams('who=ann&where=a&queue=b'), words)).toEqual([{ name: 'who', value: 'ann' }]);
});
