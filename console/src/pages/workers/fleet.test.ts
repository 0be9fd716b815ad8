import { expect, test } from 'vitest';
import type { JobRow, Schemas } from '../../api/client';
import { builds, hostOf, runs, usual } from './fleet';

test('a name tells the host', () => {
  expect(hostOf('web-3-4711-0b5ff109')).toEqual({ host: 'web-3', rest: '4711-0b5ff109' });
  expect(hostOf('named-by-hand')).toEqual({ host: 'named-by-hand', rest: '' });
});

test('workers of one version and configuration are one build', () => {
  const worker = (version: string, config: string | null) => ({ version, config }) as Schemas['Worker'];
  const found = builds([worker('1', 'a'), worker('2', 'a'), worker('1', 'a'), worker('1', null)]);
  expect(found.map((build) => [build.version, build.config, build.workers.length])).toEqual([['1', 'a', 2], ['2', 'a', 1], ['1', null, 1]]);
});

test('what most have is usual, and nothing is if two are as common', () => {
  expect(usual(['a', 'a', 'b'])).toBe('a');
  expect(usual(['a', 'b'])).toBeUndefined();
  expect(usual([])).toBeUndefined();
});

test('a worker runs types, and one job for the longest', () => {
  const job = (worker: string, type: string, started_ms: number) => ({ worker, type, started_ms }) as JobRow;
  const found = runs([job('w', 'a', 5), job('w', 'b', 3), job('w', 'b', 9), job('v', 'a', 1)]);
  expect(found.get('w')).toEqual({ types: [['b', 2], ['a', 1]], sinceMs: 3 });
  expect(found.get('v')).toEqual({ types: [['a', 1]], sinceMs: 1 });
});
