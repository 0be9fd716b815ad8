// Producers with real clients and a real server.
'use strict';

const assert = require('node:assert/strict');
const net = require('node:net');
const { test } = require('node:test');
const { BulkError, Gone, JobFailed, NotEnded, Producer, Submission, Worker } = require('../index.js');
const { clients, connect, server } = require('./server.js');

/** Runs a command with either client. */
const raw = (client, ...command) => (client.call ? client.call(...command) : client.sendCommand(command));

for (const kind of Object.keys(clients)) {
  const skip = clients[kind] ? false : `${kind} is not installed`;

  const setUp = async (t, options) => {
    const port = await server(t);
    const client = await connect(t, kind, port, options);
    const run = (...command) => raw(client, ...command);
    const entries = async (key = 'sf:{default}:jobs') =>
      (await run('XRANGE', key, '-', '+')).map(([id, flat]) => [id, Object.fromEntries(flat.map((v, at) => [v, flat[at + 1]]).filter((_, at) => at % 2 === 0))]);
    return { port, client, run, entries };
  };

  test(`${kind}: a job is one entry`, { skip }, async (t) => {
    const { client, run, entries } = await setUp(t);
    const producer = new Producer(client);
    const id = await producer.enqueue('mail.send', { to: 'Zoë 漢字' }, { maxAttempts: 4, delayMs: 5 });
    const fields = { type: 'mail.send', payload: '{"to":"Zoë 漢字"}', delay_ms: '5', max_attempts: '4' };
    assert.deepEqual(await entries(), [[id, fields]]);
    assert.deepEqual(await run('KEYS', '*'), ['sf:{default}:jobs']);
    assert.match(await producer.enqueue('x', null, { priority: 9, queue: 'mail' }), /-high$/);
    assert.equal((await entries('sf:{mail}:jobs:high')).length, 1);
    assert.equal(await producer.enqueue('x', null, { id: 'order-7' }), 'order-7');
    assert.equal(await new Producer(client, { namespace: 'app', queue: 'q' }).enqueue('x', null, { id: 'a' }), 'a');
    assert.equal((await entries('app:{q}:jobs')).length, 1);
  });

  test(`${kind}: bytes arrive as they are`, { skip }, async (t) => {
    const { client, run } = await setUp(t);
    await new Producer(client).enqueue('x', Buffer.from([255, 0, 13, 10]));
    // Lua compares bytes.
    const same = "return redis.call('XRANGE', KEYS[1], '-', '+')[1][2][4] == '\\255\\0\\r\\n' and 1 or 0";
    assert.equal(await run('EVAL', same, '1', 'sf:{default}:jobs'), 1);
  });

  test(`${kind}: many jobs keep their order, and refused ones are named`, { skip }, async (t) => {
    const { client, run, entries } = await setUp(t);
    const producer = new Producer(client);
    const ids = await producer.enqueueMany(Array.from({ length: 1201 }, (_, n) => new Submission('x', n)));
    assert.deepEqual((await entries()).map(([id]) => id), ids);
    assert.deepEqual((await entries()).map(([, { payload }]) => Number(payload)), ids.map((_, n) => n));
    assert.deepEqual(await producer.enqueueMany([]), []);
    await run('SET', 'sf:{broken}:jobs', 'no stream');
    await assert.rejects(producer.enqueueMany([new Submission('x'), new Submission('x', 1, { queue: 'broken' }), new Submission('x')]), (error) => {
      assert.ok(error instanceof BulkError);
      assert.deepEqual(error.ids.map((id) => id === undefined), [false, true, false]);
      assert.match(error.errors[1].message, /WRONGTYPE/);
      return true;
    });
    await run('CONFIG', 'SET', 'maxmemory', '1');
    await assert.rejects(producer.enqueue('x'), /OOM/);
    await run('CONFIG', 'SET', 'maxmemory', '0');
  });

  test(`${kind}: records are read as status and result`, { skip }, async (t) => {
    const { client, run } = await setUp(t);
    const producer = new Producer(client);
    const record = (id, ...fields) => run('HSET', `sf:{default}:job:${id}`, ...fields);
    await record('a', 'state', 'retrying', 'type', 'x', 'created_ms', '1700000000000', 'error', 'no', 'progress', '40', 'note', 'p3', 'more', '1');
    const { id, state, type, createdMs, error, progress, note, ended } = await producer.status('a');
    assert.deepEqual([id, state, type, createdMs, error, progress, note, ended], ['a', 'retrying', 'x', 1700000000000, 'no', 40, 'p3', false]);
    for (const [text, value] of [['{"n":1}', { n: 1 }], ['{"encoding":"base64","data":"/wA="}', Buffer.from([255, 0])], ['not JSON', 'not JSON']]) {
      await record('r', 'state', 'done', 'result', text);
      assert.deepEqual(await producer.result('r'), value);
    }
    assert.equal(await producer.status('nobody'), undefined);
    assert.equal(await producer.result('nobody'), undefined);
    await record('d', 'state', 'dead', 'error', 'no such customer');
    await assert.rejects(producer.result('d'), (failed) => failed instanceof JobFailed && /no such customer/.test(failed.message));
    await assert.rejects(producer.status('not an id'), TypeError);
  });

  test(`${kind}: waiting ends with the job, its time, or its record`, { skip }, async (t) => {
    const { client, run } = await setUp(t);
    const producer = new Producer(client);
    const key = 'sf:{default}:job:w';
    await assert.rejects(producer.wait('w', { timeoutMs: 50 }), NotEnded);
    await run('HSET', key, 'state', 'running');
    await assert.rejects(producer.wait('w', { timeoutMs: 50 }), (error) => error.state === 'running');
    setTimeout(() => run('HSET', key, 'state', 'done', 'result', '7'), 100);
    assert.equal((await producer.wait('w', { timeoutMs: 20000 })).value(), 7);
    await run('HSET', key, 'state', 'running');
    setTimeout(() => run('DEL', key), 100);
    await assert.rejects(producer.wait('w', { timeoutMs: 20000 }), Gone);
  });

  test(`${kind}: handlers submit their own jobs`, { skip }, async (t) => {
    const { client, entries } = await setUp(t);
    const handler = new Worker().job('y', { maxAttempts: 4 }, () => 1);
    await handler.enqueue({ n: 1 }, { producer: new Producer(client), id: 'a' });
    assert.deepEqual((await entries())[0][1], { type: 'y', payload: '{"n":1}', id: 'a', max_attempts: '4' });
  });
}

/** Passes requests on to the server, and loses the reply to the first XADD. */
function proxy(t, port) {
  let lost = false;
  const sockets = new Set();
  const listener = net.createServer((client) => {
    const upstream = net.connect(port, '127.0.0.1');
    for (const socket of [client, upstream]) sockets.add(socket.on('error', () => {}));
    let isLosing = false;
    client.on('data', (data) => {
      if (!lost && /XADD/i.test(data)) isLosing = lost = true;
      upstream.write(data);
    });
    upstream.on('data', (data) => {
      if (!isLosing) return client.write(data);
      client.destroy();
      return upstream.destroy();
    });
  });
  t.after(() => {
    listener.close();
    for (const socket of sockets) socket.destroy();
  });
  return new Promise((resolve) => listener.listen(0, '127.0.0.1', () => resolve(listener.address().port)));
}

const skip = clients.ioredis ? false : 'ioredis is not installed';

test('ioredis: a lost reply makes it resend, unless it is told not to', { skip }, async (t) => {
  const port = await server(t);
  const direct = await connect(t, 'ioredis', port);
  const resending = await connect(t, 'ioredis', await proxy(t, port));
  await new Producer(resending).enqueue('x', 1);
  assert.equal(await direct.xlen('sf:{default}:jobs'), 2);
  const careful = await connect(t, 'ioredis', await proxy(t, port), { autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0 });
  await assert.rejects(new Producer(careful).enqueue('x', 2));
  assert.equal(await direct.xlen('sf:{default}:jobs'), 3);
});

test('ioredis: its keyPrefix also changes call(), so it is refused', { skip }, async (t) => {
  const client = await connect(t, 'ioredis', await server(t), { keyPrefix: 'app:' });
  await client.call('SET', 'a', '1');
  const plain = client.duplicate({ keyPrefix: '' });
  t.after(() => plain.disconnect());
  assert.equal(await plain.get('app:a'), '1');
  assert.throws(() => new Producer(client), /keyPrefix/);
});

test('node-redis: it refuses numbers, so none is sent', { skip: clients['node-redis'] ? false : 'node-redis is not installed' }, async (t) => {
  const client = await connect(t, 'node-redis', await server(t));
  await assert.rejects(async () => client.sendCommand(['SET', 'a', 1]), TypeError);
  await new Producer(client).enqueue('x', 1, { delayMs: 1, maxAttempts: 2, timeoutMs: 3, runAt: Date.now() });
});
