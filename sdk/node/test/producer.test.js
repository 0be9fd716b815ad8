'use strict';

// The producer with real clients against a real server. check.sh installs them into STREAMFLEET_NODE_CLIENTS, a folder with a
// folder for each version, such as ioredis-5.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { createRequire } = require('node:module');
const path = require('node:path');
const { after, before, describe, test } = require('node:test');
const { BulkError, Producer } = require('..');
const { startRedis } = require('./server.js');

const FOLDER = process.env.STREAMFLEET_NODE_CLIENTS;
const installed = FOLDER === undefined ? [] : fs.readdirSync(FOLDER).filter((name) => /^(ioredis|redis)-[0-9]+$/.test(name)).sort();
const load = (name) => createRequire(path.join(FOLDER, name, 'package.json'))(name.replace(/-[0-9]+$/, ''));

/** The clients of a package: how to open each, and how to close it. */
function openers(name) {
  const library = load(name);
  if (name.startsWith('ioredis')) {
    const opened = (client) => ({ client, close: () => client.disconnect() });
    return {
      plain: ({ url }) => opened(new library(url)),
      'auto pipelining': ({ url }) => opened(new library(url, { enableAutoPipelining: true })),
      'string numbers': ({ url }) => opened(new library(url, { stringNumbers: true, showFriendlyErrorStack: true })),
      cluster: ({ port }) => opened(new library.Cluster([{ host: '127.0.0.1', port }])),
    };
  }
  const opened = async (client) => {
    client.on('error', () => {});
    await client.connect();
    return { client, close: () => (client.destroy ?? client.disconnect).call(client) };
  };
  const all = {
    plain: ({ url }) => opened(library.createClient({ url })),
    cluster: ({ url }) => opened(library.createCluster({ rootNodes: [{ url }] })),
  };
  if (name === 'redis-4') all.legacy = ({ url }) => opened(library.createClient({ url, legacyMode: true }));
  else {
    all.pool = ({ url }) => opened(library.createClientPool({ url }));
    all['protocol 3'] = ({ url }) => opened(library.createClient({ url, RESP: 3 }));
    all.buffers = async ({ url }) => {
      const { client, close } = await opened(library.createClient({ url }));
      return { client: client.withTypeMapping({ [library.RESP_TYPES.BLOB_STRING]: Buffer }), close };
    };
  }
  return all;
}

for (const name of installed) {
  describe(name, () => {
    let servers;
    before(async () => {
      servers = { single: await startRedis(), cluster: await startRedis({ cluster: true }) };
    });
    after(() => Promise.all(Object.values(servers).map((server) => server.stop())));

    for (const [kind, open] of Object.entries(openers(name))) {
      test(`${kind}: submits, looks up and waits`, { timeout: 60_000 }, async () => {
        const server = kind === 'cluster' ? servers.cluster : servers.single;
        await server.ask('FLUSHALL');
        const { client, close } = await open(server);
        try {
          await submits(new Producer(client), server);
        } finally {
          await close();
        }
      });
    }

    test('refused jobs are named', async () => {
      const { client, close } = await openers(name).plain(servers.single);
      try {
        await servers.single.ask('FLUSHALL');
        await servers.single.ask('SET', 'sf:{full}:jobs', 'not a stream');
        const producer = new Producer(client);
        const jobs = [{ type: 'a' }, { type: 'a', queue: 'full' }, { type: 'a' }];
        const error = await producer.enqueueMany(jobs).catch((each) => each);
        assert.ok(error instanceof BulkError, String(error.stack));
        assert.deepEqual(error.ids.map((id) => id !== null), [true, false, true]);
        assert.match(error.errors[1].message, /^WRONGTYPE/);
        await assert.rejects(producer.enqueue('a', 1, { queue: 'full' }), /WRONGTYPE/);
      } finally {
        await close();
      }
    });

    if (name.startsWith('ioredis')) {
      test('a key prefix is refused, since ioredis puts it before the keys of call()', async () => {
        await servers.single.ask('FLUSHALL');
        const client = new (load(name))(servers.single.url, { keyPrefix: 'app:' });
        const plain = client.duplicate({ keyPrefix: '' });
        try {
          await client.call('SET', 'key', 'value');
          assert.match(await servers.single.ask('EXISTS', 'app:key'), /^:1/);
          assert.throws(() => new Producer(client), /keyPrefix/);
          const id = await new Producer(plain).enqueue('a');
          assert.match(await servers.single.ask('XRANGE', 'sf:{default}:jobs', '-', '+'), new RegExp(id));
        } finally {
          client.disconnect();
          plain.disconnect();
        }
      });
    } else {
      test('node-redis refuses numbers, so the producer sends none', async () => {
        const { client, close } = await openers(name).plain(servers.single);
        try {
          await assert.rejects(async () => client.sendCommand(['SET', 'key', 1]), TypeError);
          await new Producer(client).enqueue('a', 1, { delay: 5, maxAttempts: 3, headers: { n: 1 } });
        } finally {
          await close();
        }
      });

      test('a closed client is an error, and nothing is said to be accepted', async () => {
        const { client, close } = await openers(name).plain(servers.single);
        await close();
        await assert.rejects(new Producer(client).enqueue('a'), /closed/i);
        const error = await new Producer(client).enqueueMany([{ type: 'a' }, { type: 'a' }]).catch((each) => each);
        assert.deepEqual(error.ids, [null, null]);
      });
    }
  });
}

async function submits(producer, server) {
  const id = await producer.enqueue('mail.send', { to: 'ann', n: 2n ** 60n }, { maxAttempts: 4, headers: { tenant: 9 } });
  const entry = await server.ask('XRANGE', 'sf:{default}:jobs', '-', '+');
  for (const text of [id, 'mail.send', '{"to":"ann","n":1152921504606846976}', 'max_attempts', 'h.tenant']) assert.ok(entry.includes(text), entry);
  assert.equal(await producer.status(id), null);

  await producer.enqueue('blob', Buffer.from('\xff\x00', 'latin1'), { queue: 'blobs' });
  assert.match(await server.ask('XRANGE', 'sf:{blobs}:jobs', '-', '+'), /\$2\r\n.{1,2}\0\r\n\$8\r\nencoding/s);

  const jobs = Array.from({ length: 1200 }, (_, n) => ({ type: 'a', payload: n, queue: `q${n % 2}`, lane: n % 3 === 0 ? 'low' : undefined }));
  const ids = await producer.enqueueMany(jobs);
  assert.equal(new Set(ids.map((each, n) => `${n % 2} ${each}`)).size, 1200);
  assert.ok(ids.every((each, n) => each.endsWith('-low') === (n % 3 === 0)));
  const found = await server.ask('XRANGE', 'sf:{q0}:jobs:low', ids[6].replace('-low', ''), ids[6].replace('-low', ''));
  assert.match(found, /payload\r\n\$1\r\n6\r\n/);
  assert.match(await server.ask('XLEN', 'sf:{q1}:jobs'), /^:400/);

  const waiting = producer.wait('order-7', { timeout: '20s' });
  await server.ask('HSET', 'sf:{default}:job:order-7', 'state', 'running', 'type', 'a', 'progress', '40', 'note', 'é');
  assert.deepEqual({ ...(await producer.status('order-7')) }.note, 'é');
  await server.ask('HSET', 'sf:{default}:job:order-7', 'state', 'done', 'result', '{"encoding":"base64","data":"/wA="}');
  assert.equal((await waiting).state, 'done');
  assert.deepEqual(await producer.result('order-7'), Buffer.of(255, 0));
}

test('the clients are installed', { skip: FOLDER === undefined && 'check.sh installs them' }, () => assert.ok(installed.length > 0));
