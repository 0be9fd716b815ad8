import { expect, test, vi } from 'vitest';
vi.hoisted(() => vi.stubGlobal("location", new URL("http://console/")));
import { settingOf, settingsOf } from './setting';

const note = (target: string, who: string, more = {}) => ({ entry: '1-0', at: '', at_ms: 1, who, what: 'gates set', queue: 'mail', target, why: 'relay', outcome: '', ...more });
const gate = (name: string, limits: object) => ({ queue: 'mail', gate: name, source: 'command' as const, ...limits });

test('the newest note about a gate says who set its limits', () => {
  const settings = settingsOf([note('key:h.tenant=a: b: 10 at once, 2/s', 'ann'), note('queue: breaker 50% of 20 in 1m, then 30s', 'bob'), note('queue: 2/s', 'ann'), note('queue', 'eve', { what: 'gates clear' })]);
  expect(settingOf(settings, gate('key:h.tenant=a: b', { concurrency: 10, rate: '2/s' }))?.who).toBe('ann');
  expect(settingOf(settings, gate('queue', { breaker: '50% of 20 in 1m, then 30s' }))?.who).toBe('bob');
});

test('nobody is named for limits that no note is about', () => {
  const settings = settingsOf([note('queue: 1/s', 'bob')]);
  expect(settingOf(settings, gate('queue', { rate: '2/s' }))).toBeUndefined();
  expect(settingOf(settings, { ...gate('queue', { rate: '1/s' }), source: 'config' })).toBeUndefined();
  expect(settingOf(settings, { ...gate('queue', { rate: '1/s' }), queue: 'news' })).toBeUndefined();
  expect(settingOf(undefined, gate('queue', { rate: '1/s' }))).toBeUndefined();
});
