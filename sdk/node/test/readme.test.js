'use strict';

// Runs every code block of the README, and those of the project's pages that are for Node: here, in fleet.test.js (with a real worker), and in
// check.sh (apt, npm, tsc).

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const { createRequire } = require('node:module');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { load, tables } = require('./databases.js');
const { Program, SDK } = require('./program.js');
const { PROJECT, SUBMIT_PAGE, blocks, quickStart } = require('./readme.js');
const { startRedis, until } = require('./server.js');

const CLIENTS = process.env.STREAMFLEET_NODE_CLIENTS;
const skip = CLIENTS === undefined && 'check.sh installs the clients';

/** Runs a test in a temporary folder. */
async function inFolder(run) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-node-'));
  try {
    await run(folder);
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

test('every block says how it is run', () => {
  for (const { how, code } of blocks()) {
    assert.match(how, /^(shell (apt|install|dev|submit)|file \S+|program|unit|types|producer|codecs|cli|http|batch|describe|effects|outbox)$/, code);
  }
});

const ASKED = {
  'order.import': {
    done: { lines: [1, 2] },
    fatal: { lines: [] },
    drop: { lines: [1], cancelled: true },
    snooze: { lines: [1], shop: 'closed' },
    retry: { lines: [1], busy: true },
  },
  'page.fetch': { done: { url: 'http://127.0.0.1' } },
  'card.charge': { done: { amount: 7 }, fatal: { amount: 0 }, drop: { amount: 2000 }, retry: { amount: 7, down: true } },
  'photo.scan': { done: { size: 1 }, fatal: { size: 0 } },
  'invoice.send': { done: { invoice: 7 }, fatal: {} },
};

test('examples of handlers run', async () => {
  const asked = new Set();
  for (const { code } of blocks('program')) {
    await inFolder(async (folder) => {
      quickStart(folder, 1);
      fs.writeFileSync(path.join(folder, 'program.js'), code);
      const program = new Program('', { args: ['program.js'], cwd: folder });
      try {
        const [type] = (await program.hello(50)).types;
        asked.add(type);
        for (const [outcome, payload] of Object.entries(ASKED[type])) assert.equal((await program.ask(type, payload)).outcome, outcome);
      } finally {
        program.kill();
      }
    });
  }
  assert.deepEqual([...asked].sort(), Object.keys(ASKED).sort());
});

/** Runs code in a process of its own and returns its exit code and what it printed. */
async function run(command, cwd) {
  const child = spawn(command[0], command.slice(1), { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (printed += data));
  const code = await new Promise((resolve) => child.on('close', resolve));
  return { code, printed };
}

test('examples of tests pass', async () => {
  for (const { code } of blocks('unit')) {
    await inFolder(async (folder) => {
      quickStart(folder, 1);
      assert.deepEqual(await run([process.execPath, '-e', code], folder), { code: 0, printed: '' });
    });
  }
});

test('a program says its types as the README shows', async () => {
  await inFolder(async (folder) => {
    quickStart(folder, 1);
    const code = "console.log('noise'); const { Worker } = require('streamfleet'); new Worker().on('mail.send', () => 1, { maxAttempts: 4, timeout: '30s' }).run();";
    const [{ code: want }] = blocks('describe');
    assert.deepEqual(await run(['env', 'STREAMFLEET_DESCRIBE=1', process.execPath, '-e', code], folder), { code: 0, printed: `noise\n${want}` });
  });
});

test('examples of producers run', { skip }, async () => {
  const server = await startRedis();
  const load = (name) => createRequire(path.join(CLIENTS, name, 'package.json'))(name.replace(/-[0-9]+$/, ''));
  const clients = [new (load('ioredis-5'))(server.url), await load('redis-5').createClient({ url: server.url }).connect()];
  try {
    const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor;
    const printed = [];
    for (const client of clients) {
      await server.ask('FLUSHALL');
      for (const { code } of blocks('producer')) {
        const console = { log: (text) => printed.push(text), error: assert.fail };
        await new AsyncFunction('require', 'client', 'console', code)(() => require('..'), client, console);
      }
      assert.match(await server.ask('XLEN', 'sf:{mail}:jobs'), /^:4\r/);
      assert.match(await server.ask('XLEN', 'sf:{mail}:jobs:low'), /^:1000\r/);
      assert.match(await server.ask('XLEN', 'sf:{mail}:jobs:high'), /^:1\r/);
    }
    assert.deepEqual(printed, ['it goes on without us', 'it goes on without us']);
  } finally {
    clients[0].disconnect();
    clients[1].destroy();
    await server.stop();
  }
});

test('the example of codecs encrypts', async () => {
  const key = Buffer.alloc(32, 'k');
  const sent = [];
  process.env.APP_KEYS = `2026-11:${key.toString('base64')}`;
  try {
    const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor;
    const [{ code }] = blocks('codecs');
    await new AsyncFunction('require', 'client', code)(() => require('..'), async (command) => (sent.push(command), '1-0'));
  } finally {
    delete process.env.APP_KEYS;
  }
  const field = (name) => sent[0][sent[0].indexOf(name) + 1];
  assert.deepEqual([field('encoding'), field('h.codec')], ['raw', 'json aes-256-gcm;key=2026-11']);
  const { Codecs, Keys } = require('..');
  const codecs = new Codecs({ keys: new Keys({ '2026-11': key }) });
  assert.deepEqual(await codecs.decodePayload('mail.send', field('h.codec'), field('payload')), ['json', Buffer.from('{"to":"ann@example.com"}')]);
});

test('examples with a database run', async (context) => {
  let DatabaseSync;
  try {
    ({ DatabaseSync } = load('node:sqlite'));
  } catch {
    return context.skip('this Node has no node:sqlite');
  }
  const { Job } = require('..');
  const db = new DatabaseSync(':memory:');
  for (const sql of [...tables('sqlite'), 'CREATE TABLE orders (number INTEGER)']) db.exec(sql);
  const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor;
  const handlers = {};
  const worker = { on: (type, handler) => (handlers[type] = handler) };
  for (const how of ['effects', 'outbox']) {
    const [{ code }] = blocks(how);
    await new AsyncFunction('require', 'db', 'worker', code)(() => require('..'), db, worker);
    if (how !== 'effects') continue;
    for (const fence of ['17-0', '18-0']) {
      const job = new Job('order.charge', { amount: 5, name: 'ann' }, { fence });
      assert.deepEqual(await handlers['order.charge'](job), { charged: 5 });
    }
    assert.equal(db.prepare("SELECT balance FROM accounts WHERE name = 'ann'").get().balance, -5);
  }
  const types = db.prepare('SELECT type FROM streamfleet_outbox ORDER BY seq').all().map(({ type }) => type);
  assert.deepEqual(types, ['mail.send', 'mail.send', 'invoice.send', 'stock.count']);
});

test('the raw submission of the project runs', { skip }, async () => {
  const server = await startRedis();
  const load = (name) => createRequire(path.join(CLIENTS, name, 'package.json'))(name.replace(/-[0-9]+$/, ''));
  const redis = new (load('ioredis-5'))(server.url);
  const client = await load('redis-5').createClient({ url: server.url }).connect();
  try {
    const [{ code }] = blocks('node xadd', SUBMIT_PAGE);
    const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor;
    for (const other of ['// node-redis', '// ioredis']) {
      // A program has one of the clients, and one of the lines.
      const lines = code.split('\n').filter((line) => !line.includes(other));
      assert.equal(lines.length, code.split('\n').length - 1);
      const id = await new AsyncFunction('redis', 'client', `${lines.join('\n')}\nreturn id;`)(redis, client);
      assert.deepEqual(await redis.xrange('sf:{default}:jobs', id, id), [[id, ['type', 'mail.send', 'payload', '{"to":"ann@example.com"}']]]);
    }
  } finally {
    redis.disconnect();
    client.destroy();
    await server.stop();
  }
});

test('every block of the project in this language is run', () => {
  const all = PROJECT.flatMap((page) => blocks(undefined, page));
  const named = all.filter(({ language }) => language === 'js').map(({ how }) => how);
  assert.deepEqual(named, ['node xadd', 'node worker.js', 'node enqueue']);
});

test('the quick start works with a worker that is played', { skip }, async () => {
  const server = await startRedis({ password: 'secret' });
  try {
    await inFolder(async (folder) => {
      quickStart(folder, server.port);
      fs.mkdirSync(path.join(folder, '.streamfleet'));
      fs.writeFileSync(path.join(folder, '.streamfleet', 'password'), 'secret\n');
      const toml = fs.readFileSync(path.join(folder, 'streamfleet.toml'), 'utf8');
      const [, file] = /command = \["node", "([^"]*)"\]/.exec(toml);
      const program = new Program('', { args: [file], cwd: folder });
      try {
        assert.deepEqual((await program.hello(50)).types, ['greet']);
        const submitted = run(['sh', '-c', blocks('shell submit')[0].code], folder);
        const entry = await until('the job', async () => /([0-9]{13}-[0-9]+)\r/.exec(await server.ask('XRANGE', 'sf:{default}:jobs', '-', '+'))?.[1]);
        const { result } = await program.ask('greet', { name: 'Ann' });
        await server.ask('HSET', `sf:{default}:job:${entry}`, 'state', 'done', 'result', JSON.stringify(result));
        assert.deepEqual(await submitted, { code: 0, printed: "{ greeting: 'Hello Ann' }\n" });
      } finally {
        program.kill();
      }
    });
  } finally {
    await server.stop();
  }
});

test('the example of types is checked', { skip: process.env.STREAMFLEET_NODE_TSC === undefined && 'check.sh installs TypeScript' }, async () => {
  await inFolder(async (folder) => {
    quickStart(folder, 1);
    const types = path.join(path.dirname(path.dirname(process.env.STREAMFLEET_NODE_TSC)), '@types');
    fs.symlinkSync(types, path.join(folder, 'node_modules', '@types'));
    blocks('types').forEach(({ code }, n) => fs.writeFileSync(path.join(folder, `readme${n}.mts`), code));
    const sample = fs.readFileSync(path.join(SDK, 'test', 'sample.ts'));
    for (const name of ['sample.mts', 'sample.cts']) fs.writeFileSync(path.join(folder, name), sample);
    const files = fs.readdirSync(folder).filter((name) => /\.[mc]ts$/.test(name));
    const options = ['--noEmit', '--strict', '--skipLibCheck', '--target', 'es2022', '--module', 'nodenext', '--types', 'node'];
    assert.deepEqual(await run([process.env.STREAMFLEET_NODE_TSC, ...options, ...files], folder), { code: 0, printed: '' });
  });
});
