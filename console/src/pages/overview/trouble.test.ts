import { expect, test, vi } from 'vitest';
import type { Incident, Queue } from '../../api/client';
import { troubles } from './trouble';

vi.hoisted(() => vi.stubGlobal('location', new URL('http://console/')));

const incident = (values: Partial<Incident>): Incident => ({
  id: 'a',
  state: 'open',
  kind: 'dead_group',
  key: '',
  type: '',
  detail: 'detail',
  count: 1,
  since: '',
  since_ms: 0,
  command: '',
  messages: 0,
  sinks: {},
  given_up: {},
  ...values,
});
const queue = (name: string, values: Partial<Queue> = {}): Queue => ({ queue: name, lanes: [], ...values });

test('the worst comes first, then what concerns most jobs, then what somebody knows of', () => {
  const acknowledged = { who: 'ann', why: '', until: '', until_ms: 20 };
  const incidents = [
    incident({ id: 'known', acknowledged, count: 9 }),
    incident({ id: 'warn', kind: 'backlog', count: 500 }),
    incident({ id: 'few' }),
    incident({ id: 'many', count: 7 }),
  ];
  expect(troubles(incidents, [], 10).map(({ id }) => id)).toEqual(['many', 'few', 'warn', 'known']);
  expect(troubles(incidents, [], 30).map(({ id }) => id)).toEqual(['known', 'many', 'few', 'warn']);
});

test('a cause is told once: by its incident if there is one, in the words of its queue', () => {
  const cause = { kind: 'paused' as const, text: '', by: 'ann', reason: 'stock' };
  const queues = [queue('imports', { cause }), queue('mail', { cause: { kind: 'no_worker', text: '', jobs: 3 } }), queue('calm', { cause: { kind: 'busy', text: '' } })];
  const found = troubles([incident({ id: 'paused', kind: 'queue_paused', queue: 'imports' })], queues, 0);
  expect(found.map(({ id, line }) => [id, line])).toEqual([
    ['cause mail', 'No worker serves this queue: 3 waiting'],
    ['paused', 'Paused by ann: stock'],
  ]);
});
