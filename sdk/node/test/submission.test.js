'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { BulkError, InvalidSubmission, NotSent, Producer } = require('..');

/** A client that notes what it is sent, and answers like Redis. */
function noting() {
  const sent = [];
  const send = async (args) => {
    assert.ok(args.every((each) => typeof each === 'string' || Buffer.isBuffer(each)), `node-redis refuses ${JSON.stringify(args)}`);
    sent.push(args.map(String));
    return `${sent.length}-0`;
  };
  return { sent, send };
}

test('a job is one XADD with its type and its payload', async () => {
  const { sent, send } = noting();
  const producer = new Producer(send);
  assert.equal(await producer.enqueue('mail.send', { to: 'ann' }), '1-0');
  assert.equal(await producer.enqueue('tick'), '2-0');
  assert.equal(await producer.enqueue('tick', null, { lane: 'high', queue: 'mails' }), '3-0-high');
  assert.deepEqual(sent, [
    ['XADD', 'sf:{default}:jobs', '*', 'type', 'mail.send', 'payload', '{"to":"ann"}'],
    ['XADD', 'sf:{default}:jobs', '*', 'type', 'tick'],
    ['XADD', 'sf:{mails}:jobs:high', '*', 'type', 'tick', 'payload', 'null'],
  ]);
});

test('every option is the field of the wire contract', async () => {
  const { sent, send } = noting();
  const producer = new Producer(send, { queue: 'mails', namespace: 'app' });
  const options = {
    priority: 2,
    delay: '1.5s',
    expiresAt: new Date(1_800_000_000_000),
    id: 'order-7',
    maxAttempts: 4,
    timeout: '2m',
    tracking: 'all',
    onSuccess: 'mail.sent',
    onFailure: 'mail.failed',
    then: [{ type: 'b', payload: { n: 1 }, onFailure: 'c' }, { type: 'd', queue: 'mail' }],
    batch: 'nightly',
    traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
    headers: { tenant: 9, vip: true, name: 'Ann' },
  };
  assert.equal(await producer.enqueue('mail.send', [1], options), 'order-7');
  const [command] = sent;
  assert.deepEqual(command.slice(0, 3), ['XADD', 'app:{mails}:jobs:low', '*']);
  const fields = Object.fromEntries(Array.from({ length: (command.length - 3) / 2 }, (_, n) => command.slice(3 + 2 * n, 5 + 2 * n)));
  assert.deepEqual(fields, {
    type: 'mail.send',
    payload: '[1]',
    id: 'order-7',
    delay_ms: '1500',
    expires_at_ms: '1800000000000',
    max_attempts: '4',
    timeout_ms: '120000',
    tracking: 'all',
    on_success: 'mail.sent',
    on_failure: 'mail.failed',
    then: '[{"type":"b","payload":{"n":1},"on_failure":"c"},{"type":"d","queue":"mail"}]',
    batch: 'nightly',
    traceparent: options.traceparent,
    'h.tenant': '9',
    'h.vip': 'true',
    'h.name': 'Ann',
  });
  assert.deepEqual(producer.command('a', undefined, { delay: '1h30m' }).slice(3), ['type', 'a', 'delay_ms', '5400000']);
  assert.deepEqual(producer.command('a', undefined, null).slice(3), ['type', 'a']);
  await producer.enqueue('a', undefined, { runAt: 1_800_000_000_000.4, delay: undefined, headers: undefined, id: null });
  assert.deepEqual(sent[1].slice(3), ['type', 'a', 'run_at_ms', '1800000000000']);
});

test('payloads are JSON with exact numbers, or bytes', () => {
  const producer = new Producer(noting().send);
  const payload = (value, options) => producer.command('a', value, options).slice(6);
  assert.equal(String(payload({ n: 9007199254740993n, least: -(2n ** 63n), most: 2n ** 64n - 1n })[0]), '{"n":9007199254740993,"least":-9223372036854775808,"most":18446744073709551615}');
  assert.equal(String(payload('a\ud83d😀\\ud83d')[0]), '"a\\ufffd😀\\\\ud83d"');
  assert.equal(String(payload({ empty: {}, n: 9007199254740993n })[0]), '{"empty":{},"n":9007199254740993}');
  assert.equal(String(payload({ m: Object.assign(new Map([['a', 1]]), { toJSON() { return [...this]; } }), empty: {} })[0]), '{"m":[["a",1]],"empty":{}}');
  assert.deepEqual(payload(Buffer.of(255, 0)), [Buffer.of(255, 0), 'encoding', 'raw']);
  assert.deepEqual(payload(new Uint8Array([1, 2]).buffer), [Buffer.of(1, 2), 'encoding', 'raw']);
  assert.deepEqual(payload(Buffer.from('{}'), { encoding: 'json' }), [Buffer.from('{}')]);
  assert.deepEqual(payload(Buffer.of(0x80), { encoding: 'msgpack' }), [Buffer.of(0x80), 'encoding', 'msgpack']);
});

const circle = {};
circle.self = circle;
const INVALID = [
  [['Mail'], /type does not match/],
  [[undefined], /type does not match/],
  [['a', () => 1], /not a JSON value/],
  [['a', new Map([[1, 2]])], /cannot be sent as JSON: JSON has no Map/],
  [['a', { n: 1n, s: [new Set([1])] }], /JSON has no Set/],
  [['a', 1, { then: [{ type: 'b', payload: { m: new Map() } }] }], /JSON has no Map/],
  [['a', 1, { track: 'all' }], /no option 'track'; use tracking/],
  [['a', circle], /cannot be sent as JSON.*circular/s],
  [['a', 2n ** 64n], /does not fit into 64 bits/],
  [['a', 'x'.repeat(8 * 1024 * 1024)], /8388610 bytes/],
  [['a', 1, { encoding: 'msgpack' }], /must be a Buffer/],
  [['a', 1, { encoding: 'xml' }], /encoding must be json/],
  [['a', 1, { attempts: 3 }], /no option 'attempts'; use maxAttempts/],
  [['a', 1, { retries: 3 }], /no option 'retries'; use maxAttempts, which counts the first attempt too/],
  [['a', 1, { jobId: 'x' }], /no option 'jobId'; use id/],
  [['a', 1, { backoff: 1000 }], /no option 'backoff'; it belongs to the type/],
  [['a', 1, { removeOnComplete: true }], /no option 'removeOnComplete'; use tracking/],
  [['a', 1, { constructor: 1 }], /no option 'constructor'$/],
  [['a', 1, { unique: 'x' }], /with Http or Cli/],
  [['a', 1, { uniqueMode: 'replace' }], /need unique/],
  [['a', 1, { id: '1700000000000-0' }], /must not look like/],
  [['a', 1, { id: '1700000000000-0-low' }], /must not look like/],
  [['a', 1, { id: 'a b' }], /white space/],
  [['a', 1, { id: 'é'.repeat(65) }], /1 to 128 bytes/],
  [['a', 1, { id: 7 }], /id must be a text/],
  [['a', 1, { queue: 'Mails' }], /queue does not match/],
  [['a', 1, { lane: 'urgent' }], /lane must be high/],
  [['a', 1, { lane: 'high', priority: 9 }], /not both/],
  [['a', 1, { priority: 11 }], /from 1 to 10/],
  [['a', 1, { delay: -1 }], /delay must be a number/],
  [['a', 1, { delay: '5' }], /delay must be a number/],
  [['a', 1, { delay: '1h 30m' }], /delay must be a number/],
  [['a', 1, { delay: 1, runAt: new Date() }], /not both/],
  [['a', 1, { runAt: 1_800_000_000 }], /runAt must be a Date, or milliseconds/],
  [['a', 1, { runAt: new Date(NaN) }], /runAt must be a Date/],
  [['a', 1, { maxAttempts: 0 }], /maxAttempts must be a whole number/],
  [['a', 1, { maxAttempts: '3' }], /maxAttempts must be a whole number/],
  [['a', 1, { timeout: 0.2 }], /timeout in milliseconds must be a whole number from 1/],
  [['a', 1, { timeout: '8d' }], /to 604800000/],
  [['a', 1, { tracking: true }], /tracking must be all/],
  [['a', 1, { onSuccess: 'A' }], /onSuccess does not match/],
  [['a', 1, { then: [{ type: 'b', delay: 1 }] }], /but not 'delay'/],
  [['a', 1, { then: [{ type: 'b', queue: 'No' }] }], /queue does not match/],
  [['a', 1, { then: [{ type: 'b', payload: 'x'.repeat(65_536) }] }], /more than 65536 bytes/],
  [['a', 1, { then: new Array(65).fill({ type: 'b' }) }], /at most 64/],
  [['a', 1, { batch: '' }], /batch must be a text/],
  [['a', 1, { headers: { '': 'x' } }], /too long/],
  [['a', 1, { headers: { a: 'x'.repeat(8193) } }], /at most 8192/],
  [['a', 1, { headers: { a: {} } }], /a text, a number or a boolean/],
  [['a', 1, { headers: Object.fromEntries(Array.from({ length: 999 }, (_, n) => [`h${n}`, ''])) }], /at most 1000 fields/],
];

test('what breaks the wire contract is refused before anything is sent', async () => {
  const { sent, send } = noting();
  const producer = new Producer(send);
  for (const [args, why] of INVALID) {
    await assert.rejects(producer.enqueue(...args), (error) => {
      assert.ok(error instanceof InvalidSubmission, `${error.stack}`);
      assert.match(error.message, why);
      return true;
    });
  }
  const named = (message) => (error) => error instanceof InvalidSubmission && message.test(error.message);
  await assert.rejects(producer.enqueueMany([{ type: 'a' }, { type: 'B' }]), named(/^jobs\[1\]: type does not match/));
  await assert.rejects(producer.enqueueMany([null]), named(/^jobs\[0\] must be an object with a type, not null/));
  assert.throws(() => new Producer(send, { queue: 'A' }), InvalidSubmission);
  assert.deepEqual(sent, []);
});

test('many jobs go out in rounds, and after a broken connection nothing more is sent', async () => {
  let calls = 0;
  const producer = new Producer(async () => {
    calls += 1;
    if (calls === 3) throw new Error('OOM command not allowed when used memory > maxmemory');
    if (calls > 600) throw new Error('Socket closed unexpectedly');
    return `${calls}-0`;
  });
  const error = await producer.enqueueMany(Array.from({ length: 1200 }, (_, n) => ({ type: 'a', payload: n }))).catch((each) => each);
  assert.ok(error instanceof BulkError);
  assert.equal(error.message, '601 of 1200 jobs were not confirmed: OOM command not allowed when used memory > maxmemory');
  assert.equal(calls, 1000);
  assert.deepEqual([error.ids[0], error.ids[2], error.ids[599], error.ids[600]], ['1-0', null, '600-0', null]);
  assert.equal(error.errors[0], null);
  assert.match(error.errors[2].message, /^OOM/);
  assert.match(error.errors[999].message, /^Socket closed/);
  assert.ok(error.errors[1000] instanceof NotSent && error.errors[1199] instanceof NotSent);
  assert.deepEqual(await producer.enqueueMany([]), []);
});

test('an answer that is no id is an error', async () => {
  await assert.rejects(new Producer(async () => 'QUEUED').enqueue('a'), /XADD was answered with 'QUEUED'/);
});

/** A client with a record, as Redis answers; `text` makes its strings. */
function withRecord(fields, text = (value) => value) {
  return async ([command, ...args]) => {
    assert.equal(command, 'HMGET');
    return args.slice(1).map((name) => (fields?.[name] === undefined ? null : text(fields[name])));
  };
}

test('a status has the fields of the record', async () => {
  const record = { state: 'done', type: 'a', created_ms: '1700000000000', result: '{"n":9007199254740993}', error: 'earlier', progress: '40', note: 'page 2' };
  for (const text of [(value) => value, (value) => Buffer.from(value)]) {
    const status = await new Producer(withRecord(record, text)).status('order-7');
    assert.deepEqual({ ...status }, {
      id: 'order-7', state: 'done', type: 'a', createdMs: 1_700_000_000_000, error: undefined, progress: 40, note: 'page 2',
      result: { n: 9007199254740993n },
    });
    assert.equal(status.ended, true);
  }
  assert.equal(await new Producer(withRecord()).status('1-0'), null);
});

test('a result is a value, or bytes; a job that failed has none', async () => {
  const result = (fields) => new Producer(withRecord(fields)).result('order-7');
  assert.deepEqual(await result({ state: 'done', result: '[1]' }), [1]);
  assert.deepEqual(await result({ state: 'done', result: '{"encoding":"base64","data":"/wA="}' }), Buffer.of(255, 0));
  assert.deepEqual(await result({ state: 'done', result: 'no JSON' }), 'no JSON');
  for (const fields of [{ state: 'done' }, { state: 'running' }, undefined]) assert.equal(await result(fields), undefined);
  await assert.rejects(result({ state: 'dead', error: 'kaputt' }), { name: 'JobFailed', message: 'the job order-7 is dead: kaputt' });
});

test('waiting ends with the job, with the time, with the record, or with a signal', async () => {
  const states = ['waiting', 'running', 'running', 'done'];
  const producer = new Producer((args) => withRecord({ state: states.shift() })(args));
  assert.equal((await producer.wait('order-7', { timeout: '20s' })).state, 'done');
  const stuck = new Producer(withRecord({ state: 'running' }));
  await assert.rejects(stuck.wait('order-7', { timeout: 20 }), { name: 'NotEnded', state: 'running' });
  await assert.rejects(new Producer(withRecord()).wait('order-7', { timeout: 0 }), { name: 'NotEnded', state: undefined, message: /has no record: .*`streamfleet status order-7`.*tracking: 'all'/ });
  await assert.rejects(stuck.wait('order-7', { signal: AbortSignal.timeout(20) }), { name: 'TimeoutError' });
});

test('clients are known by their shape', async () => {
  const prefixed = { call() {}, pipeline() {}, options: { keyPrefix: 'app:' } };
  assert.throws(() => new Producer(prefixed), /keyPrefix 'app:'.*duplicate/);
  for (const client of [undefined, null, {}, 'redis://', { call() {} }]) assert.throws(() => new Producer(client), /neither ioredis nor node-redis/);
  const seen = [];
  const answer = (...args) => seen.push(args) && Promise.resolve('1-0');
  await new Producer({ sendCommand: (args) => answer('client', args) }).enqueue('a');
  await new Producer({ sendCommand: (isReadonly, args, _options) => answer('sentinel', isReadonly, args) }).enqueue('a');
  await new Producer({ sendCommand: (...args) => answer('cluster', ...args), getSlotRandomNode() {} }).enqueue('a');
  await new Producer({ sendCommand() {}, options: { legacyMode: true }, v4: { sendCommand: (args) => answer('legacy', args) } }).enqueue('a');
  const command = ['XADD', 'sf:{default}:jobs', '*', 'type', 'a'];
  assert.deepEqual(seen, [['client', command], ['sentinel', false, command], ['cluster', command[1], false, command], ['legacy', command]]);
});
