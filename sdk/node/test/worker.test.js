// The pool protocol: what a program with handlers answers to a worker.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { Fatal, Snooze, Worker, testJob } = require('../index.js');
const { SDK, program } = require('./pool.js');

const CODE = `
  const { execSync } = require('node:child_process');
  const { setTimeout: sleep } = require('node:timers/promises');
  const fs = require('node:fs');
  const { Done, Drop, Fatal, Retry, Snooze, currentJob, job, middleware, run } = require('./index.js');
  const outcomes = {
    done: () => new Done({ n: 1 }),
    retry: () => new Retry('later', { delayMs: 2500 }),
    'plain retry': () => new Retry('again'),
    fatal: () => new Fatal('never'),
    snooze: () => new Snooze(60000, 'closed'),
    drop: () => new Drop('sold out'),
    list: () => [1, 'ü'],
    bytes: () => Buffer.from([255, 0]),
    none: () => undefined,
    nan: () => ({ n: NaN }),
    bigint: () => 1n,
    map: () => new Map(),
    rounded: () => 2 ** 53,
    surrogate: () => '\\udc80',
    huge: () => 'x'.repeat(17 * 1024 * 1024),
    cycle: () => { const a = {}; a.a = a; return a; },
  };
  job('return', async (job) => outcomes[job.payload]());
  job('throw', async (job) => { throw outcomes[job.payload](); });
  job('echo', (job) => ({ id: job.id, payload: Buffer.isBuffer(job.payload) ? [...job.payload] : job.payload, attempt: job.attempt,
    max: job.maxAttempts, headers: job.headers, step: job.step, left: job.remainingMs > 0 && job.remainingMs <= 30000 }));
  job('fail', async () => { throw new RangeError('no customer 7'); });
  job('odd', async (job) => { throw job.payload; });
  job('long', async () => { throw new Error('ü'.repeat(10000)); });
  job('noise', async () => {
    console.log('printed');
    process.stdout.write('written\\n');
    fs.writeSync(1, 'by descriptor\\n');
    execSync('echo from a program; cat', { stdio: 'inherit' });
    return process.env.STREAMFLEET_POOL ?? 'unset';
  });
  job('progress', (job) => {
    job.progress(42.5, 'page 3 of 7');
    job.progress(1000);
    job.log('hello', { rows: 3, odd: 1n, ...(''.isWellFormed && { '\\udc80': 'a\\udc80' }) }, 'warn');
    try { job.progress(NaN); } catch (error) { return error.message; }
  });
  job('sleep', async (job) => { await sleep(job.payload); return currentJob() === job ? job.id : 'other'; });
  job('hang', async (job) => { await sleep(60000, undefined, { signal: job.signal }); });
  job('stubborn', (job) => new Promise((resolve) => job.signal.addEventListener('abort', () => resolve(job.cancelled))));
`;

async function started(t, { tail = 'run();', inflight = 50 } = {}) {
  const one = program(t, CODE + tail);
  one.ready = await one.hello(inflight);
  return one;
}

test('ready names types, protocol and the lower count', async (t) => {
  const one = await started(t, { tail: 'run({ inflight: 7 });' });
  assert.deepEqual({ ...one.ready, types: one.ready.types.length }, { type: 'ready', protocol: 1, types: 11, inflight: 7, sdk: 'streamfleet-node 0.1.0' });
});

test('another protocol is refused with both versions', async (t) => {
  const one = program(t, CODE + 'run();');
  one.send({ type: 'hello', protocol: 2, inflight: 1 });
  const [lines, code] = await one.end();
  assert.deepEqual([lines.map((line) => line.type), code], [['ready'], 1]);
  assert.match(one.stderr, /the worker speaks protocol 2, this program 1/);
});

test('outcomes are the same returned and thrown', async (t) => {
  const one = await started(t);
  const expected = {
    done: { outcome: 'done', result: { n: 1 } },
    retry: { outcome: 'retry', error: 'later', delay_ms: 2500 },
    'plain retry': { outcome: 'retry', error: 'again' },
    fatal: { outcome: 'fatal', error: 'never' },
    snooze: { outcome: 'snooze', delay_ms: 60000, reason: 'closed' },
    drop: { outcome: 'drop', reason: 'sold out' },
  };
  for (const way of ['return', 'throw']) {
    for (const [name, fields] of Object.entries(expected)) {
      assert.deepEqual(await one.ask(way, name), { type: 'result', ref: String(one.refs), ...fields });
    }
  }
});

test('results are JSON or bytes or absent', async (t) => {
  const one = await started(t);
  assert.deepEqual((await one.ask('return', 'list')).result, [1, 'ü']);
  assert.equal((await one.ask('return', 'bytes')).result_base64, '/wA=');
  assert.ok(!('result' in (await one.ask('return', 'none'))));
});

test('a result that JSON cannot express is fatal', async (t) => {
  const one = await started(t);
  const names = ['nan', 'bigint', 'map', 'rounded', 'huge', 'cycle'];
  if (''.isWellFormed) names.push('surrogate');
  for (const name of names) {
    const answer = await one.ask('return', name);
    assert.equal(answer.outcome, 'fatal', name);
    assert.match(answer.error, /cannot be sent as JSON/);
  }
});

test('a job has what the worker said', async (t) => {
  const one = await started(t);
  const { result } = await one.ask('echo', { n: 1 }, { attempt: 2, headers: { tenant: '9' }, step: 'charge', later: 1 });
  assert.deepEqual(result, { id: 'job-1', payload: { n: 1 }, attempt: 2, max: 5, headers: { tenant: '9' }, step: 'charge', left: true });
  assert.deepEqual((await one.ask('echo', null, { payload_base64: '/wA=', encoding: 'raw' })).result.payload, [255, 0]);
  const text = 'ü'.repeat(3 * 1024 * 1024);
  assert.equal((await one.ask('echo', text)).result.payload, text);
});

test('errors are retries that say where they came from, and are cut', async (t) => {
  const one = await started(t);
  const { outcome, error } = await one.ask('fail');
  assert.equal(outcome, 'retry');
  assert.match(error, /^RangeError: no customer 7\n\s+at /);
  assert.doesNotMatch(error, /node:internal|sdk\/node\/index\.js/);
  for (const thrown of [null, 'text', { a: 1 }, 7]) assert.match((await one.ask('odd', thrown)).error, /^thrown: /);
  const long = (await one.ask('long')).error;
  assert.ok(Buffer.byteLength(long) <= 4096 && !long.includes('\uFFFD'));
  assert.match((await one.ask('nobody')).error, /no handler for nobody/);
});

test('prints and programs do not break the protocol', async (t) => {
  const one = await started(t);
  assert.equal((await one.ask('noise')).result, 'unset');
  one.input.end();
  assert.deepEqual(await one.end(), [[{ type: 'bye' }], 0]);
  for (const text of ['printed', 'written', 'by descriptor', 'from a program']) assert.ok(one.stderr.includes(text), text);
});

test('progress and logs are sent', async (t) => {
  const one = await started(t);
  const ref = one.job('progress');
  assert.deepEqual(await one.read(), { type: 'progress', ref, percent: 42.5, message: 'page 3 of 7' });
  assert.equal((await one.read()).percent, 100);
  assert.deepEqual(await one.read(), { type: 'log', ref, level: 'warn', message: 'hello', fields: { rows: 3, odd: '1', ...(''.isWellFormed && { '\ufffd': 'a\ufffd' }) } });
  assert.equal((await one.result()).result, 'the progress is NaN');
});

test('jobs run at once, and each knows itself', async (t) => {
  const one = await started(t);
  const refs = Array.from({ length: 50 }, () => one.job('sleep', 300));
  const answers = await Promise.all(refs.map(() => one.result()));
  assert.deepEqual(Object.fromEntries(answers.map((a) => [a.ref, a.result])), Object.fromEntries(refs.map((r) => [r, `job-${r}`])));
});

test('cancel ends one job and leaves the others', async (t) => {
  const one = await started(t);
  const [first, second, third] = [one.job('hang'), one.job('stubborn'), one.job('sleep', 200)];
  one.send({ type: 'cancel', ref: first, reason: 'timeout' });
  one.send({ type: 'cancel', ref: second, reason: 'cancelled' });
  one.send({ type: 'cancel', ref: '77', reason: 'lost' });
  one.send({ type: 'unheard of' });
  const answers = Object.fromEntries([await one.result(), await one.result(), await one.result()].map((a) => [a.ref, a]));
  assert.equal(answers[first].error, 'the attempt was interrupted: timeout');
  assert.equal(answers[second].result, 'cancelled');
  assert.equal(answers[third].result, `job-${third}`);
});

test('sigterm finishes jobs and snoozes what comes after', async (t) => {
  const one = await started(t);
  const first = one.job('sleep', 1000);
  await one.ask('sleep', 0);
  process.kill(one.process.pid, 'SIGTERM');
  let late;
  do late = await one.ask('sleep', 0); while (late.outcome !== 'snooze');
  assert.equal(late.delay_ms, 1000);
  const [lines, code] = await one.end();
  assert.deepEqual([lines[0].ref, lines[0].outcome, lines[1], code], [first, 'done', { type: 'bye' }, 0]);
});

test('sigterm while idle, and the end of input, end with bye', async (t) => {
  const idle = await started(t);
  process.kill(idle.process.pid, 'SIGTERM');
  assert.deepEqual(await idle.end(), [[{ type: 'bye' }], 0]);
  const busy = await started(t);
  const ref = busy.job('sleep', 200);
  busy.input.end('{"type":"job","ref":"cut o');
  const [lines, code] = await busy.end();
  assert.deepEqual([lines.map((line) => line.ref ?? line.type), code], [[ref, 'bye'], 0]);
});

test('maxJobs counts jobs that started', async (t) => {
  const one = await started(t, { tail: 'run({ maxJobs: 2 });' });
  for (let n = 0; n < 3; n += 1) one.job('sleep', 200);
  const [lines, code] = await one.end();
  const outcomes = Object.fromEntries(lines.slice(0, -1).map((line) => [line.ref, line.outcome]));
  assert.deepEqual([outcomes, lines.at(-1), code], [{ 1: 'done', 2: 'done', 3: 'snooze' }, { type: 'bye' }, 0]);
});

test('middleware surrounds handlers in order', async (t) => {
  const tail = `
    middleware(async (job, next) => (job.headers.tenant === 'gone' ? new Drop('no tenant') : ['outer', await next()]));
    middleware(async (job, next) => { try { return ['inner', await next()]; } catch (error) { throw new Fatal(error); } });
    run();`;
  const one = await started(t, { tail });
  assert.deepEqual((await one.ask('sleep', 0)).result, ['outer', ['inner', 'job-1']]);
  assert.deepEqual((await one.ask('fail')).outcome, 'fatal');
  assert.equal((await one.ask('fail', null, { headers: { tenant: 'gone' } })).reason, 'no tenant');
});

test('streamfleet-pool takes the output before it loads, CommonJS or ESM', async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  const index = JSON.stringify(path.join(SDK, 'index.js'));
  fs.writeFileSync(path.join(folder, 'a.cjs'), `console.log('noise'); require(${index}).job('a', () => 1);`);
  fs.writeFileSync(path.join(folder, 'b.mjs'), `import { job, run } from ${JSON.stringify(path.join(SDK, 'index.mjs'))};\nconsole.log('noise');\njob('b', () => 2);\nrun();`);
  const one = program(t, null, { args: [path.join(SDK, 'pool.js'), 'a.cjs', 'b.mjs'], cwd: folder });
  assert.deepEqual((await one.hello()).types, ['a', 'b']);
  assert.equal((await one.ask('b')).result, 2);
});

test('handlers can be called without a worker', () => {
  const worker = new Worker();
  const send = worker.job('mail.send', (job) => (job.payload.to.includes('@') ? { sent: true } : new Fatal('not an address')));
  assert.deepEqual(send(testJob('mail.send', { to: 'ann@example.com' })), { sent: true });
  assert.ok(send(testJob('mail.send', { to: 'ann' })) instanceof Fatal);
  assert.throws(() => worker.job('mail.send', () => 1), /two handlers/);
  assert.throws(() => new Worker().run(), /no handler/);
  assert.throws(() => new Snooze(-1), RangeError);
  assert.throws(() => new Snooze('5'), TypeError);
  assert.throws(() => send.enqueue({}), /no producer/);
});

test('the types describe everything that is exported, both ways', async () => {
  const types = fs.readFileSync(path.join(SDK, 'index.d.ts'), 'utf8');
  const names = Object.keys(require('../index.js')).filter((name) => !name.startsWith('_')).sort();
  for (const name of names) assert.match(types, new RegExp(`export (abstract )?(class|function) ${name}\\b`), name);
  const esm = await import('../index.mjs');
  assert.deepEqual(Object.keys(esm).filter((name) => name !== 'default').sort(), names);
});
