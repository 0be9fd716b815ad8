import { expect, test } from 'vitest';
import { en } from './en';
import { fill } from './words.svelte';
import { zh } from './zh-CN';

const values = (text: string) => [...new Set([...text.matchAll(/\{(\w+)\}/g)].map((found) => found[1]))].sort();

test('both languages have the same keys, in the same order', () => {
  expect(Object.keys(zh)).toEqual(Object.keys(en));
});

test('both languages use the same values', () => {
  for (const [key, text] of Object.entries(en)) expect([key, values(zh[key as keyof typeof en])]).toEqual([key, values(text)]);
});

test('a text has the form of its count', () => {
  expect(fill('{count} job|{count} jobs', { count: 1 })).toBe('1 job');
  expect(fill('{count} job|{count} jobs', { count: '1\u202f200' })).toBe('1\u202f200 jobs');
  expect(fill('{count} job|{count} jobs', { count: '1k' })).toBe('1k jobs');
  expect(fill('{who} waits', {})).toBe('{who} waits');
});

test('no value turns the text around it', () => {
  expect(fill('{who} waits', { who: 'מיכל' })).toBe('\u2068מיכל\u2069 waits');
  expect(fill('{who} waits', { who: 'a\u2069\u202eb' })).toBe('\u2068a\u202eb\u2069 waits');
  expect(fill('{who} waits', { who: 'ann' })).toBe('ann waits');
});
