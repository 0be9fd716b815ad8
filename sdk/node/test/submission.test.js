// What a submission becomes, and what it refuses. No server is needed.
'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { Producer, Submission } = require('../index.js');

function fields(...args) {
  const flat = new Submission(...args).fields;
  return Object.fromEntries(flat.map((value, at) => [value, flat[at + 1]]).filter((_, at) => at % 2 === 0));
}

test('every option is a field of the wire contract, and a text', () => {
  const sent = fields('mail.send', { to: 'ann@example.com', ü: [1, null], left: undefined }, {
    id: 'order-7', delayMs: 60000.4, runAt: new Date('2026-12-01T00:00:00Z'), expiresAt: 1796083200500, maxAttempts: 4, timeoutMs: 60000,
    tracking: 'all', onSuccess: 'mail.sent', onFailure: 'mail.failed', then: [{ type: 'b', payload: { n: 1 }, onFailure: 'c' }],
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', headers: { tenant: '9' },
  });
  assert.deepEqual(sent, {
    type: 'mail.send', payload: '{"to":"ann@example.com","ü":[1,null]}', id: 'order-7', delay_ms: '60000', run_at_ms: '1796083200000',
    expires_at_ms: '1796083200500', max_attempts: '4', timeout_ms: '60000', tracking: 'all', on_success: 'mail.sent', on_failure: 'mail.failed',
    then: '[{"type":"b","payload":{"n":1},"on_failure":"c"}]', traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'h.tenant': '9',
  });
});

test('bytes are sent as they are', () => {
  assert.deepEqual(fields('x', Buffer.from([255, 0])), { type: 'x', payload: Buffer.from([255, 0]), encoding: 'raw' });
  assert.deepEqual(fields('x', new Uint8Array([129]), { encoding: 'msgpack' }).encoding, 'msgpack');
  assert.deepEqual(fields('x'), { type: 'x', payload: 'null' });
});

test('what JSON.stringify would change silently is refused', () => {
  const half = ''.isWellFormed ? ['\udc80', { '\udc80': 1 }] : [];
  for (const payload of [NaN, { n: [Infinity] }, 1n, 2 ** 53, -(2 ** 60), new Map(), new Set(), () => 1, Symbol('x'), ...half]) {
    assert.throws(() => fields('x', payload), TypeError, String(payload));
  }
  assert.equal(fields('x', [2 ** 53 - 1, 1e21, 0.1]).payload, '[9007199254740991,1e+21,0.1]');
  assert.equal(fields('x', new Date(0)).payload, '"1970-01-01T00:00:00.000Z"');
});

test('what a worker would bury as malformed is refused', () => {
  for (const [type, payload, options] of [
    ['Mail.Send'], [''], ['x'.repeat(129)], ['x\n'], [7],
    ['x', null, { queue: 'a:b' }], ['x', null, { lane: 'fast' }], ['x', null, { priority: 11 }], ['x', null, { priority: 5, lane: 'low' }],
    ['x', null, { delayMs: -1 }], ['x', null, { delayMs: NaN }], ['x', null, { delayMs: '5' }], ['x', null, { delayMs: 5n }],
    ['x', null, { runAt: 1796083200 }], ['x', null, { runAt: new Date(NaN) }], ['x', null, { runAt: '2026-12-01' }],
    ['x', null, { id: '' }], ['x', null, { id: 'a b' }], ['x', null, { id: 'a\u00a0b' }], ['x', null, { id: 'ü'.repeat(65) }],
    ['x', null, { id: '1700000000000-0' }], ['x', null, { id: 7 }], ['x', null, { maxAttempts: 0 }], ['x', null, { maxAttempts: 1.5 }],
    ['x', null, { maxAttempts: '4' }], ['x', null, { timeoutMs: 0 }], ['x', null, { timeoutMs: 604800001 }], ['x', null, { tracking: 'yes' }],
    ['x', null, { onSuccess: 'No' }], ['x', null, { headers: { '': 'x' } }], ['x', null, { headers: { a: 'x'.repeat(8193) } }],
    ['x', null, { headers: { tenant: 9 } }], ['x', null, { then: [{ payload: 1 }] }], ['x', null, { then: [{ type: 'b', delayMs: 1 }] }],
    ['x', null, { then: Array.from({ length: 65 }, () => ({ type: 'b' })) }], ['x', { a: 1 }, { encoding: 'msgpack' }],
    ['x', 'x'.repeat(8 * 1024 * 1024)], ['x', null, { delay: 5 }], ['x', null, { unique: 'key' }],
    ['x', null, { headers: Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`h${n}`, ''])) }],
  ]) {
    assert.throws(() => fields(type, payload, options), `${String(type).slice(0, 20)} ${Object.keys(options ?? {})}`);
  }
});

test('a priority stands for a lane', () => {
  const lanes = Array.from({ length: 10 }, (_, n) => new Submission('x', null, { priority: n + 1 }).lane);
  assert.deepEqual(lanes, [...Array(3).fill('low'), ...Array(4).fill('normal'), ...Array(3).fill('high')]);
});

test('a client that would change keys, or is none, is refused', () => {
  assert.throws(() => new Producer({ call() {}, options: { keyPrefix: 'app:' } }), /keyPrefix "app:"/);
  assert.throws(() => new Producer({ call() {}, options: { redisOptions: { keyPrefix: 'app:' } } }), /keyPrefix/);
  assert.throws(() => new Producer({}), /neither one of ioredis/);
});
