import { expect, test, vi } from 'vitest';
import type { Incident } from '../../api/client';
import { session } from '../../api/session.svelte';
import { deliveries, lineOf, moments, placeOf } from './incident';

vi.hoisted(() => vi.stubGlobal('location', new URL('http://console/')));

const incident = (more: Partial<Incident>) => ({ kind: 'dead_group', queue: 'mail', key: 'f00d', type: '', sinks: {}, given_up: {}, since_ms: 1, detail: 'd', ...more }) as Incident;

test('an incident leads to what is wrong', () => {
  const cases: [Partial<Incident>, string | undefined][] = [
    [{}, '/queues/mail/dead/groups/f00d'],
    [{ key: '*' }, '/queues/mail/dead'],
    [{ kind: 'dead_job', key: '1-0' }, '/queues/mail/dead/1-0'],
    [{ kind: 'campaign_stopped', key: 'c1' }, '/queues/mail/tasks/c1'],
    [{ kind: 'needs_decision' }, '/decisions?queue=mail'],
    [{ kind: 'backlog', key: '' }, '/queues/mail'],
    [{ kind: 'redis_memory', queue: null }, undefined],
    [{ kind: 'backlog', queue: null }, undefined],
  ];
  for (const [more, place] of cases) expect(placeOf(incident(more))).toBe(place);
  session.person = { name: 'ann', role: 'viewer', queues: {} } as typeof session.person;
  expect(placeOf(incident({ kind: 'redis_memory', queue: null }))).toBe('/redis');
});

test('a sink has taken messages, or refused the last one', () => {
  const found = deliveries(incident({ sinks: { ops: 3, phone: 2 }, given_up: { phone: 3, team: 1 } }));
  expect(found).toEqual([{ sink: 'ops', taken: 3 }, { sink: 'phone', taken: 2, refused: 3 }, { sink: 'team', taken: 0, refused: 1 }]);
});

test('what happened has an order, and ends now or when it was over', () => {
  expect(moments(incident({ opened_ms: 5 }), 9).map((moment) => moment.kind)).toEqual(['since', 'opened', 'now']);
  expect(moments(incident({ opened_ms: 5, resolved_ms: 7 }), 9).at(-1)).toEqual({ kind: 'resolved', atMs: 7 });
});

test('the exception says more than the words', () => {
  expect(lineOf(incident({ example_error: 'ValueError: no' }))).toBe('ValueError: no');
  expect(lineOf(incident({}))).toBe('d');
});
