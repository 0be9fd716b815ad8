'use strict';

// Submissions by the HTTP API: with a console that is played, which loses answers, and with the real one.

const assert = require('node:assert/strict');
const { execFileSync, spawn } = require('node:child_process');
const fs = require('node:fs');
const { createServer } = require('node:http');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, test } = require('node:test');
const { BulkError, Gone, Http, InvalidSubmission, NotEnded, NotSent, Refused, Unconfirmed } = require('..');
const { blocks } = require('./readme.js');
const { freePort, startRedis, until } = require('./server.js');

const BIN = process.env.STREAMFLEET_BIN;
const DEADLINE_MS = 30_000;
const MADE = { id: 'key-1', queue: 'default', lane: 'normal', state: 'waiting', existing: false };

/** A console that answers requests one after the other by these functions; the last one stays. Returns what it got. */
async function played(...answers) {
  const got = [];
  const server = createServer((request, response) => {
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      const { method, url, headers } = request;
      got.push({ method, url, headers, body: Buffer.concat(chunks).toString() });
      answers[Math.min(got.length, answers.length) - 1](response, request.socket);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  return { got, url, stop };
}

const json = (status, body, headers = {}) => (response) => response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
const text = (status, body) => (response) => response.writeHead(status).end(body);
const reset = (_response, socket) => socket.resetAndDestroy();
const problem = (status, detail, more = {}) => json(status, { type: 'urn:x', title: 'a title', status, detail, ...more });

/** Runs a test with a console that is played. */
async function withConsole(answers, run, options = {}) {
  const console = await played(...answers);
  try {
    return await run(new Http({ url: console.url, token: 'secret-token', timeout: '5s', ...options }), console.got);
  } finally {
    console.stop();
  }
}

test('a job is a request with a token and a key, and all options', async () => {
  await withConsole([json(201, MADE)], async (http, got) => {
    const accepted = await http.enqueue('mail.send', { to: 'ann', n: 2n ** 60n }, { delay: '1m', headers: { tenant: 9 }, unique: 'k', uniqueScope: 1500, idempotentFor: '2d', durability: 'aof', queue: 'mail' });
    assert.deepEqual(accepted, { id: 'key-1', state: 'waiting', isNew: true, replaced: undefined, isDebounced: false });
    const [{ method, url, headers, body }] = got;
    assert.deepEqual([method, url, headers.authorization, headers['content-type']], ['POST', '/api/v1/queues/mail/jobs', 'Bearer secret-token', 'application/json']);
    assert.match(headers['idempotency-key'], /^[0-9a-f-]{36}$/);
    assert.equal(
      body,
      '{"lane":"normal","type":"mail.send","delay":60000,"headers":{"tenant":"9"},"unique":"k","unique_scope":"1500ms","payload":{"to":"ann","n":1152921504606846976},"idempotent_for":172800000,"durability":"aof"}',
    );
  });
});

test('a request whose answer is lost is repeated with the key and the body that it had', async () => {
  await withConsole([reset, text(502, '<html>'), json(200, 'no job'), json(200, { ...MADE, existing: true })], async (http, got) => {
    assert.equal((await http.enqueue('a', 1)).id, 'key-1');
    assert.equal(got.length, 4);
    assert.equal(new Set(got.map(({ headers }) => headers['idempotency-key'])).size, 1);
    assert.equal(new Set(got.map(({ body }) => body)).size, 1);
  });
  await withConsole([reset, json(200, { ...MADE, existing: true })], async (http, got) => {
    assert.equal((await http.enqueue('a', 1, { id: 'order-7' })).isNew, false);
    // The id does what the key does.
    assert.deepEqual(got.map(({ headers }) => headers['idempotency-key']), [undefined, undefined]);
  });
});

test('errors name the field, the address and what to do, and never the token', async () => {
  const errors = [{ at: '/delay', detail: 'a duration must be a number' }];
  for (const [answer, Kind, message, more] of [
    [problem(422, '/delay: a duration must be a number', { errors }), InvalidSubmission, /^\/delay: a duration must be a number .*status 422/, { fields: ['/delay'] }],
    [problem(401, 'the token is not known'), Refused, /the token is not known.*streamfleet console token/],
    [problem(403, 'not allowed'), Refused, /not allowed.*role submitter/],
    [problem(429, 'the queue is full'), Refused, /the queue is full/],
    [problem(503, 'Redis did not answer'), Unconfirmed, /Redis did not answer/],
    [problem(504, 'accepted, but not confirmed'), Unconfirmed, /accepted, but not confirmed/],
    [text(200, '<html>'), Unconfirmed, /names no job: is it the address of `streamfleet console`/],
    [text(302, ''), Refused, /status 302/],
    [reset, Unconfirmed, /cannot be reached/],
  ]) {
    await withConsole(
      [answer],
      async (http, got) => {
        const error = await http.enqueue('a').catch((each) => each);
        assert.ok(error instanceof Kind, error.stack);
        assert.match(error.message, message);
        assert.doesNotMatch(error.stack, /secret-token/);
        for (const [name, value] of Object.entries(more ?? {})) assert.deepEqual(error[name], value);
        const isRepeated = [429, 503].includes(error.status) || answer === reset || /names no job/.test(error.message);
        assert.equal(got.length, isRepeated ? 2 : 1, error.message);
      },
      { retries: 1 },
    );
  }
});

test('a queue that is full is asked again when it says', async () => {
  await withConsole([json(429, { detail: 'full' }, { 'retry-after': '1' }), json(201, MADE)], async (http) => {
    const begun = performance.now();
    assert.equal((await http.enqueue('a')).isNew, true);
    assert.ok(performance.now() - begun > 900);
  });
  await withConsole([json(429, { detail: 'full' }, { 'retry-after': '60' })], async (http, got) => {
    await assert.rejects(http.enqueue('a'), Refused);
    assert.equal(got.length, 1);
  });
});

test('without a console the job is refused, and with a silent one nobody knows', async () => {
  const port = await freePort();
  const nobody = new Http({ url: `http://127.0.0.1:${port}`, token: 't', retries: 1 });
  await assert.rejects(nobody.enqueue('a'), (error) => error instanceof Refused && /cannot be reached: .*ECONNREFUSED/.test(error.message));
  await withConsole([() => {}], (http) => assert.rejects(http.enqueue('a'), (error) => error instanceof Unconfirmed && /did not answer within 50 ms/.test(error.message)), { timeout: 50, retries: 1 });
});

test('many jobs are lines, and an answer that broke off is asked for again', async () => {
  const fate = (line, more = { id: `j${line}` }) => `${JSON.stringify({ line, ...more })}\n`;
  const end = `${JSON.stringify({ done: true, accepted: 2, existing: 0, rejected: 0, unknown: 0 })}\n`;
  const unknown = { problem: { status: 503, detail: 'Redis did not answer' } };
  const answers = [text(200, fate(1)), text(200, fate(1) + fate(2, unknown) + end), text(200, fate(1) + fate(2) + end)];
  await withConsole(answers, async (http, got) => {
    assert.deepEqual(await http.enqueueMany([{ type: 'a', payload: 1 }, { type: 'b', lane: 'low' }]), ['j1', 'j2']);
    assert.deepEqual(got.map(({ body }) => body), new Array(3).fill('{"lane":"normal","type":"a","payload":1}\n{"lane":"low","type":"b"}'));
    assert.equal(new Set(got.map(({ headers }) => headers['idempotency-key'])).size, 1);
  });
  const invalid = { problem: { status: 422, detail: '/type: no', errors: [{ at: '/type' }] } };
  await withConsole([text(200, fate(1) + fate(2, invalid) + end)], async (http) => {
    const error = await http.enqueueMany([{ type: 'a' }, { type: 'b' }]).catch((each) => each);
    assert.ok(error instanceof BulkError);
    assert.deepEqual([error.ids, error.errors[1] instanceof InvalidSubmission], [['j1', null], true]);
  });
  await withConsole(
    [reset],
    async (http, got) => {
      const error = await http.enqueueMany(Array.from({ length: 501 }, () => ({ type: 'a' }))).catch((each) => each);
      assert.ok(error.errors[0] instanceof Unconfirmed && error.errors[500] instanceof NotSent);
      assert.equal(got.length, 1);
    },
    { retries: 0 },
  );
});

test('a batch is one request, which is repeated', async () => {
  await withConsole([reset, json(200, { batch: 'a/b', queue: 'mail', members: 2, ids: ['a/b.0', 'own'] })], async (http, got) => {
    const members = [{ type: 'a', payload: { n: 2n ** 60n }, traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` }, { type: 'b', id: 'own' }];
    assert.deepEqual(await http.batch('a/b', members, { type: 'total', queue: 'mail' }), ['a/b.0', 'own']);
    const [first, second] = got.map(({ method, url, body }) => `${method} ${url} ${body}`);
    assert.equal(first, second);
    assert.equal(
      first,
      `PUT /api/v1/queues/mail/batches/a%2Fb {"follow":{"lane":"normal","type":"total"},"members":[{"lane":"normal","type":"a","traceparent":"00-${'a'.repeat(32)}-${'b'.repeat(16)}-01","payload":{"n":1152921504606846976}},{"lane":"normal","type":"b","id":"own"}]}`,
    );
    for (const [args, why] of [[['b', [], { type: 'a' }], /a batch needs a member/], [['b c', [{ type: 'a' }], { type: 'a' }], /batch must be/], [['b', [{ type: 'a' }], { type: 'a', delay: 1 }], /delay/]]) {
      await assert.rejects(http.batch(...args), why);
    }
  });
});

test('what cannot be meant is refused before anything is sent', async () => {
  const url = 'http://127.0.0.1:9470';
  for (const [options, why] of [
    [{ token: 't' }, /url must be the address of `streamfleet console`/],
    [{ url: 'redis://127.0.0.1', token: 't' }, /url must begin with http/],
    [{ url: 'http://ann:secret@localhost', token: 't' }, /no login/],
    [{ url }, /token must be/],
    [{ url, token: 't', retries: -1 }, /retries/],
    [{ url, token: 't', queue: 'A' }, /queue does not match/],
  ]) {
    assert.throws(() => new Http(options), why);
  }
  const http = new Http({ url, token: 't' });
  await assert.rejects(http.enqueue('a', Buffer.of(1), { encoding: 'msgpack' }), /the HTTP API takes JSON or raw bytes/);
  await assert.rejects(http.enqueue('a', Buffer.of(255)), /the HTTP API takes raw payloads only if they are UTF-8/);
  await assert.rejects(http.enqueue('a', 1, { idempotentFor: 'x' }), InvalidSubmission);
  await assert.rejects(http.enqueueMany([{ type: 'a' }, { type: 'B' }]), /jobs\[1\]: type/);
});

test('waiting is a request that the console holds, again and again', async () => {
  const running = json(200, { id: '..', state: 'running', type: 'a', progress: { percent: 40, message: 'half' } });
  const done = json(200, { id: '..', state: 'done', type: 'a', created_ms: 1_700_000_000_000, result: { encoding: 'base64', data: '/wA=' }, progress: null });
  await withConsole([running, done], async (http, got) => {
    const status = await http.wait('..', { timeout: '20s' });
    assert.deepEqual([status.value(), status.createdMs], [Buffer.of(255, 0), 1_700_000_000_000]);
    assert.match(got[0].url, /^\/api\/v1\/queues\/default\/jobs\/\.\.%20\?wait=[0-9]+ms$/);
  });
  await withConsole([running], async (http) => {
    await assert.rejects(http.wait('7', { timeout: 0 }), (error) => error instanceof NotEnded && error.state === 'running');
    await assert.rejects(http.wait('7', { signal: AbortSignal.abort() }), { name: 'AbortError' });
    assert.equal((await http.status('7')).note, 'half');
    assert.equal(await http.result('7'), undefined);
  });
  await withConsole([running, problem(404, 'no such job')], (http) => assert.rejects(http.wait('7'), Gone));
  await withConsole([problem(404, 'no such job')], async (http) => {
    assert.equal(await http.status('7'), null);
    await assert.rejects(http.wait('7', { timeout: 50 }), (error) => error instanceof NotEnded && error.state === undefined);
  });
});

describe('the real console', { skip: BIN === undefined && 'STREAMFLEET_BIN is not set' }, () => {
  let folder;
  let server;
  let http;
  let url;
  let token;
  const programs = [];
  const said = () => fs.readFileSync(path.join(folder, 'log'), 'utf8').slice(-4000);

  before(async () => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-node-'));
    server = await startRedis();
    const port = await freePort();
    let sha256;
    [, token, sha256] = /token: +(\S+)\s+sha256: +(\S+)/.exec(execFileSync(BIN, ['console', 'token'], { cwd: folder, timeout: DEADLINE_MS }).toString());
    fs.writeFileSync(path.join(folder, 'accounts.toml'), `[tokens.shop]\nsha256 = "${sha256}"\nrole = "submitter"\npayloads = true\n`);
    fs.writeFileSync(path.join(folder, 'worker.js'), `const { Worker, Fatal } = require(${JSON.stringify(path.dirname(__dirname))});
      new Worker().on('sum', (job) => job.payload.reduce((a, b) => a + b)).on('fail', () => new Fatal('never')).on('invoice.send', () => 1).run();`);
    fs.writeFileSync(path.join(folder, 'streamfleet.toml'), `
      [redis]
      url = "${server.url}"
      [telemetry]
      listen = "127.0.0.1:${await freePort()}"
      [console]
      listen = "127.0.0.1:${port}"
      accounts_file = "accounts.toml"
      [pools.node]
      command = [${JSON.stringify(process.execPath)}, "worker.js"]
      inflight = 20
      [types.sum]
      handler.pool = "node"
      [types.fail]
      handler.pool = "node"
      [types."invoice.send"]
      handler.pool = "node"
    `);
    const log = fs.openSync(path.join(folder, 'log'), 'w');
    for (const name of ['worker', 'console']) programs.push(spawn(BIN, [name], { cwd: folder, stdio: ['ignore', log, log] }));
    fs.closeSync(log);
    url = `http://127.0.0.1:${port}`;
    await until('the console', async () => (await fetch(`${url}/healthz`)).ok).catch((error) => assert.fail(`${error.message}: ${said()}`));
    // A machine that has much else to do takes its time.
    http = new Http({ url, token, timeout: '60s' });
  });

  after(async () => {
    for (const program of programs) {
      program.kill('SIGKILL');
      await new Promise((resolve) => (program.exitCode ?? program.signalCode) === null ? program.once('exit', resolve) : resolve());
    }
    await server?.stop();
    if (folder) fs.rmSync(folder, { recursive: true, force: true });
  });

  test('an id is accepted once, a key keeps others out, and results come back', { timeout: 300_000 }, async () => {
    const first = await http.enqueue('sum', [1, 2], { id: 'sum-7' });
    assert.deepEqual([first.id, first.isNew], ['sum-7', true]);
    assert.equal((await http.enqueue('sum', [1, 2], { id: 'sum-7' })).isNew, false);
    assert.equal((await http.wait('sum-7', { timeout: '30s' })).value(), 3);
    assert.equal(await http.result('sum-7'), 3);

    const holder = await http.enqueue('sum', [1], { unique: 'k', delay: '1h', headers: { tenant: 9 } });
    assert.deepEqual(await http.enqueue('sum', [2], { unique: 'k' }), { id: holder.id, state: 'scheduled', isNew: false, replaced: undefined, isDebounced: false });

    const { id } = await http.enqueue('fail');
    assert.equal((await http.wait(id, { timeout: '30s' })).state, 'dead');
    await assert.rejects(http.result(id), { name: 'JobFailed', message: /never/ });
  });

  test('many jobs are accepted, and those that are wrong are named', { timeout: 300_000 }, async () => {
    const ids = await http.enqueueMany(Array.from({ length: 600 }, (_, n) => ({ type: 'sum', payload: [n, 1], ...(n % 2 && { id: `many-${n}` }) })));
    assert.equal(new Set(ids).size, 600);
    assert.equal(ids[599], 'many-599');
    assert.equal((await http.wait(ids[598], { timeout: '30s' })).value(), 599);
    const error = await http.enqueueMany([{ type: 'sum', payload: [1] }, { type: 'sum', durability: 'nowhere' }]).catch((each) => each);
    assert.ok(error instanceof BulkError && error.errors[1] instanceof InvalidSubmission, error.stack);
    assert.match(error.errors[1].message, /durability/);
  });

  test('the example of the README runs', { timeout: 300_000 }, async () => {
    const printed = [];
    const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor;
    const [{ code }] = blocks('http');
    const process_ = { env: { CONSOLE: url, TOKEN: token } };
    await new AsyncFunction('require', 'process', 'console', code)(() => require('..'), process_, { log: (...words) => printed.push(words.join(' ')) });
    assert.deepEqual(printed, ['true false', 'done']);
    assert.match(await server.ask('EXISTS', 'sf:{default}:unique:report-11'), /^:1/);
  });

  test('a batch is opened once, and the job that follows has the trace', { timeout: 300_000 }, async () => {
    const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
    const open = () => http.batch('sums', [{ type: 'sum', payload: [1] }, { type: 'sum', payload: [2], id: 'own' }], { type: 'sum', payload: [3], id: 'sum-of-sums', traceparent });
    assert.deepEqual([await open(), await open()], [['sums.0', 'own'], ['sums.0', 'own']]);
    assert.equal((await http.wait('sum-of-sums', { timeout: '30s' })).value(), 3);
  });

  test('a token that is wrong is refused with a remedy', { timeout: 300_000 }, async () => {
    const stranger = new Http({ url, token: 'wrong' });
    await assert.rejects(stranger.enqueue('sum'), (error) => error instanceof Refused && /streamfleet console token/.test(error.message));
  });
});
