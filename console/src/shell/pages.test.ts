import { expect, test } from 'vitest';
import { session } from '../api/session.svelte';
import { match, mayOpen, MOVED, PAGES } from './pages';

test('an address names its page, and what its segments are about', () => {
  expect(match([])?.page.path).toBe('');
  expect(match(['queues', 'a/b', 'jobs', '..'])?.named).toEqual({ queue: 'a/b', job: '..' });
  expect(match(['queues', 'mail', 'dead', 'groups', 'f00d'])?.page.path).toBe('queues/:queue/dead/groups/:group');
  expect(match(['nothing'])).toBeUndefined();
});

test('no two pages have the same address or keys, and the navigation marks pages that it has', () => {
  const keys = PAGES.flatMap((page) => page.nav?.keys ?? []);
  expect(new Set(PAGES.map((page) => page.path)).size).toBe(PAGES.length);
  expect(new Set(keys).size).toBe(keys.length);
  for (const { under } of PAGES) expect(under === undefined || PAGES.some((page) => page.nav && page.path === under)).toBe(true);
});

test('addresses of the earlier console lead to the pages that took their place', () => {
  for (const [, to] of MOVED) expect(PAGES.some((page) => page.path === to)).toBe(true);
  const moved = match(['queues', 'mail', 'campaigns', '0b5ff109', 'pause']);
  expect([moved?.page.path, moved?.named.task]).toEqual(['queues/:queue/tasks/:task', '0b5ff109']);
  expect(match(['queues', 'mail', 'jobs', 'order-7', 'replay'])?.named).toMatchObject({ queue: 'mail', job: 'order-7' });
  expect(match(['queues', 'mail', 'dead'], new URLSearchParams('group=f00d'))?.named).toEqual({ queue: 'mail', group: 'f00d' });
  expect(match(['queues', 'mail', 'dead'], new URLSearchParams('view=letters&group=f00d'))?.named).toEqual({ queue: 'mail' });
  expect(match(['incidents', '0b5ff109'])?.named).toEqual({ incident: '0b5ff109' });
});

test('what is about more than queues is for people with a role on every queue', () => {
  const open = (...segments: string[]) => mayOpen(match(segments)!.page);
  const rights = { can_log_out: true, csrf_token: '', masked: false, namespace: 'sf', payloads: true };
  session.person = { ...rights, name: 'ann', role: null, queues: { mail: 'operator' } };
  expect([open('jobs'), open('submit'), open('redis'), open('alerts')]).toEqual([true, true, false, false]);
  session.person = { ...session.person!, role: 'viewer' };
  expect([open('redis'), open('alerts')]).toEqual([true, false]);
});
