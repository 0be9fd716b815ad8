// The package with the real program: STREAMFLEET_BIN is the path to `streamfleet`. Without it, these tests are skipped.
'use strict';

const assert = require('node:assert/strict');
const { execFileSync, spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { JobFailed, Producer } = require('../index.js');
const { SDK } = require('./pool.js');
const { clients, connect, freePort, server } = require('./server.js');

const BIN = process.env.STREAMFLEET_BIN && path.resolve(process.env.STREAMFLEET_BIN);
const KIND = Object.keys(clients).find((kind) => clients[kind]);
const skip = !BIN ? 'STREAMFLEET_BIN is not set' : KIND ? false : 'no client is installed';
const DEADLINE_MS = 60000;

const HANDLERS = `
  const fs = require('node:fs');
  const { setTimeout: sleep } = require('node:timers/promises');
  const { Drop, Fatal, Retry, Snooze, job } = require(${JSON.stringify(SDK)});
  const firstTime = (name) => { try { fs.closeSync(fs.openSync(name, 'wx')); return true; } catch { return false; } };
  const what = {
    done: (job) => ({ attempt: job.attempt, maxAttempts: job.maxAttempts, headers: job.headers }),
    bytes: () => Buffer.from([255, 0]),
    retry: (job) => (job.attempt === 1 ? new Retry('not yet', { delayMs: 50 }) : job.attempt),
    fail: () => { throw new RangeError('no customer 7'); },
    fatal: () => new Fatal('never'),
    drop: () => new Drop('sold out'),
    snooze: (job) => (firstTime('snoozed') ? new Snooze(50, 'closed') : job.attempt),
    hang: (job) => sleep(600000, undefined, { signal: job.signal }),
    hold: async (job) => {
      job.progress(50, 'half');
      job.log('holding', { rows: 3 });
      while (!fs.existsSync('go on')) await sleep(10);
      return process.pid;
    },
  };
  let together = 0;
  what.meet = async () => { together += 1; while (together < 20) await sleep(10); return true; };
  job('sdk.node', (job) => { console.log('noise'); return job.payload?.what ? what[job.payload.what](job) : job.payload; });
`;

async function fleet(t) {
  const port = await server(t);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  fs.writeFileSync(path.join(folder, 'handlers.js'), HANDLERS);
  const command = JSON.stringify([process.execPath, path.join(SDK, 'pool.js'), 'handlers.js']);
  const config = `
    [redis]
    url = "redis://127.0.0.1:${port}"
    [telemetry]
    listen = "127.0.0.1:${await freePort()}"
    [types."sdk.node"]
    handler = { pool = { command = ${command}, processes = 1, inflight = 20 } }
    tracking = "all"
    max_attempts = 2
    timeout = "30s"
    backoff = { fixed = "50ms" }
  `;
  fs.writeFileSync(path.join(folder, 'streamfleet.toml'), config);
  const worker = spawn(BIN, ['worker'], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  for (const stream of [worker.stdout, worker.stderr]) stream.on('data', (data) => (said = (said + data).slice(-4000)));
  const exit = new Promise((resolve) => worker.on('exit', resolve));
  t.after(async () => {
    worker.kill('SIGKILL');
    await exit;
  });
  const producer = new Producer(await connect(t, KIND, port));
  const wait = (id) => producer.wait(id, { timeoutMs: DEADLINE_MS }).catch((error) => assert.fail(`${error.message}; the worker said: ${said}`));
  const ask = async (what, options) => wait(await producer.enqueue('sdk.node', { what }, options));
  const status = (id) => JSON.parse(execFileSync(BIN, ['status', id, '--json'], { cwd: folder }));
  return { ask, exit, folder, producer, said: () => said, status, wait, worker };
}

test('each outcome has its effect', { skip }, async (t) => {
  const { ask, status } = await fleet(t);
  const done = await ask('done', { headers: { tenant: '9' }, maxAttempts: 3 });
  assert.deepEqual(done.value(), { attempt: 1, maxAttempts: 3, headers: { tenant: '9' } });
  assert.deepEqual((await ask('bytes')).value(), Buffer.from([255, 0]));
  assert.equal((await ask('retry')).value(), 2);
  assert.equal((await ask('snooze')).value(), 1);
  for (const [what, state, error] of [['fatal', 'dead', 'never'], ['fail', 'dead', 'RangeError: no customer 7'], ['drop', 'cancelled', 'sold out']]) {
    const ended = await ask(what);
    assert.equal(ended.state, state);
    assert.ok(JSON.stringify(status(ended.id)).includes(error), what);
    assert.throws(() => ended.value(), JobFailed);
  }
});

test('payloads arrive as they were sent', { skip }, async (t) => {
  const { producer, wait } = await fleet(t);
  for (const [payload, encoding, want] of [
    [{ n: [2 ** 53 - 1, 0.1, 'ü漢\u2028'] }], [Buffer.from([255, 0, 10])], [Buffer.from([0x92, 1, 0xa1, 0x61]), 'msgpack', [1, 'a']], [undefined],
  ]) {
    const value = (await wait(await producer.enqueue('sdk.node', payload, encoding ? { encoding } : {}))).value();
    assert.deepEqual(value ?? undefined, want ?? payload);
  }
});

test('twenty jobs run at once, and one that times out ends alone', { skip }, async (t) => {
  const { ask } = await fleet(t);
  const hang = ask('hang', { timeoutMs: 500, maxAttempts: 1 });
  const met = await Promise.all(Array.from({ length: 20 }, () => ask('meet')));
  assert.ok(met.every((ended) => ended.value() === true));
  assert.equal((await hang).state, 'dead');
});

test('progress and logs are seen, and sigterm lets the job finish', { skip }, async (t) => {
  const { exit, folder, producer, said, status, worker } = await fleet(t);
  const id = await producer.enqueue('sdk.node', { what: 'hold' });
  const until = Date.now() + DEADLINE_MS;
  const seen = async () => (await producer.status(id))?.progress === 50 && JSON.stringify(status(id).log).includes('holding');
  while (!(await seen())) {
    assert.ok(Date.now() < until, said());
    await sleep(10);
  }
  worker.kill('SIGTERM');
  fs.writeFileSync(path.join(folder, 'go on'), '');
  assert.equal(await exit, 0, said());
  const ended = await producer.status(id);
  assert.equal(ended.state, 'done');
  assert.throws(() => process.kill(ended.value(), 0), { code: 'ESRCH' });
});
