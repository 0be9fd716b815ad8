import { expect, test } from 'vitest';
import { asJob, asPast, backOf, byType, conditionsOf, instantOf, type PastLife } from './past';

const now = Date.UTC(2026, 10, 30, 12);
const hour = 3_600_000;

test('times become instants, and what is no time stays for the API to judge', () => {
  expect(instantOf('7d', now)).toBe('2026-11-23T12:00:00.000Z');
  expect(instantOf('1h 30m', now)).toBe('2026-11-30T10:30:00.000Z');
  expect(instantOf('2026-11-29', now)).toBe(new Date(2026, 10, 29).toISOString());
  expect(instantOf('2026-11-29 08:15', now)).toBe(new Date(2026, 10, 29, 8, 15).toISOString());
  for (const text of ['2026-12-01T10:00:00Z', '2026-99-99', 'soon', '7 apples', '']) expect(instantOf(text, now)).toBe(text);
  expect(instantOf('99999w', now)).toBe('1970-01-01T00:00:00.000Z');
});

test('a field with a value is a key, and an id stays one', () => {
  const of = (value: string) => asPast([{ name: 'id', value }])[0];
  expect(of('customer=9')).toEqual({ name: 'key', value: 'customer=9' });
  expect(of('payload.customer=a=b')).toEqual({ name: 'key', value: 'customer=a=b' });
  for (const id of ['order-7', '1700-0', 'YWJj=', 'YWI==', '=x']) expect(of(id)).toEqual({ name: 'id', value: id });
});

test('the API gets the filters of the address', () => {
  const filters = [{ name: 'state', value: 'dead' }, { name: 'since', value: '1d' }];
  expect(conditionsOf(filters, now)).toEqual({ state: 'dead', since: '2026-11-29T12:00:00.000Z' });
});

test('counts go as far back as the filter, and at most a day', () => {
  const back = (since?: string) => backOf(since ? [{ name: 'since', value: since }] : [], now);
  expect([back(), back('1h'), back('7d'), back('soon'), back('2026-11-30T11:00:00Z'), back('2027-01-01T00:00:00Z')]).toEqual([24 * hour, hour, 24 * hour, 24 * hour, hour, 1000]);
});

test('counts are by type, the type with the most jobs first', () => {
  const counts = [
    { type: 'b', state: 'done', jobs: 2 },
    { type: 'a', state: 'dead', jobs: 1 },
    { type: 'b', state: 'dead', jobs: 3 },
    { type: 'c', state: 'done', jobs: 1 },
  ];
  expect(byType(counts)).toEqual([
    { type: 'b', ends: { done: 2, dead: 3 }, jobs: 5 },
    { type: 'a', ends: { dead: 1 }, jobs: 1 },
    { type: 'c', ends: { done: 1 }, jobs: 1 },
  ]);
});

test('a life is shown as a job is', () => {
  const runs = [{ number: 1, started_ms: null, ended_ms: now - hour, outcome: 'lost', worker: null, error: null }, { number: 2, started_ms: now - 10, ended_ms: now, outcome: 'error', worker: 'w', error: 'no' }];
  const input = { payload: { to: 'ann' }, encoding: 'json', headers: {}, payload_bytes: 12, payload_cut: false, terms: {} };
  const life = { id: 'order-7', type: 'mail.send', lane: 'normal', state: 'dead', created_ms: now - 2 * hour, ended_ms: now, error: 'no', runs, input } as unknown as PastLife;
  const job = asJob('mail', life);
  expect(job).toMatchObject({ queue: 'mail', id: 'order-7', state: 'dead', payload: { to: 'ann' }, log: [] });
  expect(job.attempts.map(({ started_ms, worker }) => [started_ms, worker])).toEqual([[now - hour, ''], [now - 10, 'w']]);
  expect(asJob('mail', { ...life, input: null }).payload).toBeUndefined();
});
