import { expect, test } from 'vitest';
import { breakerOf, isUsed, lastsMs, limitsOf, named, perMs, stateOf, taken, times, what, type Target } from './gate';

const gate: Target = { queue: 'mail', gate: 'type:mail.send', state: 'open', held: 0, waiting: 0 };

test('a gate is named as the API names what it pauses', () => {
  expect([named('queue'), named('type:a:b'), named('key:h.tenant=9')]).toEqual([{}, { type: 'a:b' }, { key: 'h.tenant=9' }]);
});

test('only gates that hold something or that somebody has set are in use', () => {
  expect([isUsed(gate), isUsed({ ...gate, source: 'config' })]).toEqual([false, false]);
  for (const used of [{ state: 'paused' }, { held: 1 }, { waiting: 1 }, { source: 'command' }] as Partial<Target>[]) expect(isUsed({ ...gate, ...used })).toBe(true);
  expect([stateOf(gate), stateOf({ ...gate, waiting: 3 }), stateOf({ ...gate, state: 'paused', waiting: 3 })]).toEqual(['open', 'holding', 'paused']);
});

test('a rate says how long those wait that it holds', () => {
  expect([perMs('2/s'), perMs('600/10m'), perMs('10/s burst 5'), perMs('x'), perMs(null)]).toEqual([0.002, 0.001, 0.01, undefined, undefined]);
  expect([lastsMs(168_000, '2/s'), lastsMs(0, '2/s'), lastsMs(5, null)]).toEqual([84_000_000, undefined, undefined]);
  expect([times('2/s', 2), times('600/10m', 0.5), times('1/s', 0.1)]).toEqual(['4/s', '300/10m', '1/s']);
});

test('limits are sent as the API takes them, which is not how it shows them', () => {
  expect(breakerOf('50% of 20 in 1m 30s, then 30s')).toEqual({ share: 50, attempts: 20, within: '1m30s', shut: '30s' });
  expect(breakerOf('12.5%/20/1m/30s')).toEqual({ share: 12.5, attempts: 20, within: '1m', shut: '30s' });
  expect(breakerOf(null)).toBeUndefined();
  expect(taken({ ...gate, rate: '2/s', breaker: '50% of 20 in 1m, then 30s' })).toEqual({ concurrency: undefined, rate: '2/s', breaker: '50%/20/1m/30s' });
});

test('gates are called by what they have in common', () => {
  expect(limitsOf({ concurrency: 10, rate: '100/s' })).toBe('10 at once, 100/s');
  expect([what([{ queue: 'mail', gate: 'queue' }]), what([gate]), what([gate, { ...gate, queue: 'news' }])]).toEqual(['mail', 'type:mail.send · mail', 'type:mail.send · 2 queues']);
});
