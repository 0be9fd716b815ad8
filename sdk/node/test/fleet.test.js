'use strict';

// The package with the real program: STREAMFLEET_BIN is the path to `streamfleet`. Without it, these tests are skipped.

const assert = require('node:assert/strict');
const { execFile, execFileSync, spawn } = require('node:child_process');
const fs = require('node:fs');
const { createRequire } = require('node:module');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, test } = require('node:test');
const { Cli, Producer } = require('..');
const { SDK } = require('./program.js');
const { HANDLERS_PAGE, blocks, quickStart } = require('./readme.js');
const { freePort, startRedis, until } = require('./server.js');

const BIN = process.env.STREAMFLEET_BIN;
const CLIENTS = process.env.STREAMFLEET_NODE_CLIENTS;
const DEADLINE_MS = 30_000;
const skip =
  (BIN === undefined && 'STREAMFLEET_BIN is not set: the tests with the real program are skipped') ||
  (CLIENTS === undefined && 'check.sh installs the clients');

const HANDLERS = `
  const { existsSync, openSync } = require('node:fs');
  const { setTimeout: sleep } = require('node:timers/promises');
  const { Drop, Fatal, Worker, retry, snooze } = require(${JSON.stringify(SDK)});
  console.log('noise while loading');

  const isFirst = (name) => {
    try {
      openSync(name, 'wx');
      return true;
    } catch {
      return false;
    }
  };
  let together = 0;
  const handlers = {
    echo: (job) => job.payload,
    facts: ({ attempt, maxAttempts, headers, queue, fence }) => ({ attempt, maxAttempts, headers, queue, hasFence: fence !== undefined }),
    bytes: () => Buffer.of(255, 0),
    nothing: () => undefined,
    retry: (job) => (job.attempt === 1 ? retry('not yet', { delay: 50 }) : job.attempt),
    fail: () => { throw new RangeError('no customer 7'); },
    fatal: () => { throw new Fatal('never'); },
    drop: () => new Drop('sold out'),
    snooze: (job) => (isFirst('snoozed') ? snooze('50ms', 'closed') : job.attempt),
    hang: (job) => new Promise((_, reject) => job.signal.addEventListener('abort', () => reject(job.signal.reason))),
    crash: (job) => (job.attempt === 1 ? new Promise(() => setTimeout(() => { throw new Error('uncaught'); })) : job.attempt),
    reject: async (job) => {
      if (job.attempt === 1) void Promise.reject(new Error('rejected'));
      await sleep(10);
      return job.attempt;
    },
    neighbour: async (job) => {
      if (isFirst('neighbour')) await new Promise(() => {});
      return job.attempt;
    },
    together: async () => {
      together += 1;
      while (together < 20) await sleep(5);
      return process.pid;
    },
    hold: async (job) => {
      job.progress(50, 'half');
      await job.log('holding', 'info', { rows: 3 });
      while (!existsSync('go on')) await sleep(10);
      return process.pid;
    },
  };
  const worker = new Worker();
  worker.use((job, next) => {
    console.log('noise');
    return next();
  });
  worker.on('sdk.node', (job) => handlers[job.headers.what ?? 'echo'](job));
  worker.run();
`;

describe('a fleet', { skip }, () => {
  let folder;
  let server;
  let client;
  let producer;
  let worker;
  let exit;

  const said = () => fs.readFileSync(path.join(folder, 'worker.log'), 'utf8').slice(-4000);
  const enqueue = (what, payload, options) => producer.enqueue('sdk.node', payload, { ...options, headers: { what, ...options?.headers } });
  const ended = async (id) => {
    try {
      return await producer.wait(id, { timeout: DEADLINE_MS });
    } catch (error) {
      throw new Error(`${error.message}; the worker said: ${said()}`);
    }
  };
  const end = async (what, payload, options) => ended(await enqueue(what, payload, options));
  const shown = (id) => JSON.parse(execFileSync(BIN, ['status', id, '--json'], { cwd: folder, timeout: DEADLINE_MS }).toString());

  before(async () => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-node-'));
    server = await startRedis();
    client = await createRequire(path.join(CLIENTS, 'redis-5', 'package.json'))('redis').createClient({ url: server.url }).connect();
    producer = new Producer(client);
    fs.writeFileSync(path.join(folder, 'worker.js'), HANDLERS);
    fs.writeFileSync(
      path.join(folder, 'streamfleet.toml'),
      `[redis]
      url = "${server.url}"
      [telemetry]
      listen = "127.0.0.1:${await freePort()}"
      [types."sdk.node"]
      handler = { pool = { command = [${JSON.stringify(process.execPath)}, "worker.js"], processes = 1, inflight = 20, grace = "2s" } }
      tracking = "all"
      max_attempts = 2
      timeout = "30s"
      backoff = { fixed = "50ms" }
      `,
    );
    const log = fs.openSync(path.join(folder, 'worker.log'), 'w');
    worker = spawn(BIN, ['worker'], { cwd: folder, stdio: ['ignore', log, log] });
    fs.closeSync(log);
    exit = new Promise((resolve) => worker.once('exit', (code, signal) => resolve(code ?? signal)));
  });

  after(async () => {
    if (worker?.exitCode === null && worker.signalCode === null) worker.kill('SIGKILL');
    await exit;
    await client?.destroy();
    await server?.stop();
    if (folder) fs.rmSync(folder, { recursive: true, force: true });
  });

  test('each outcome has its effect', async () => {
    const facts = { attempt: 1, maxAttempts: 3, headers: { what: 'facts', tenant: '9' }, queue: 'default', hasFence: true };
    assert.deepEqual((await end('facts', 1, { maxAttempts: 3, headers: { tenant: 9 } })).value(), facts);
    assert.deepEqual((await end('bytes')).value(), Buffer.of(255, 0));
    assert.equal((await end('nothing')).state, 'done');
    assert.equal((await end('retry')).value(), 2);
    assert.equal((await end('snooze')).value(), 1);
    for (const [what, state, error] of [
      ['fatal', 'dead', 'never'],
      ['fail', 'dead', 'RangeError: no customer 7'],
      ['drop', 'cancelled', 'sold out'],
    ]) {
      const status = await end(what);
      assert.equal(status.state, state, what);
      assert.ok(JSON.stringify(shown(status.id)).includes(error), JSON.stringify(shown(status.id)));
      assert.throws(() => status.value(), { name: 'JobFailed' });
    }
  });

  test('payloads arrive as they were sent', async () => {
    for (const [payload, options, want] of [
      [{ n: [2n ** 64n - 1n, -(2n ** 63n), 2n ** 53n + 1n, 0.1], text: 'ü漢😀\u2028' }],
      [null],
      [Buffer.of(255, 0, 10)],
      [Buffer.of(0x92, 1, 0xa1, 0x61), { encoding: 'msgpack' }, [1, 'a']],
    ]) {
      // A result that is null is as good as none.
      assert.deepEqual((await end('echo', payload, options)).value() ?? null, want ?? payload);
    }
  });

  test('jobs run at once in one process', async () => {
    const ids = await producer.enqueueMany(Array.from({ length: 20 }, () => ({ type: 'sdk.node', headers: { what: 'together' } })));
    const pids = new Set();
    for (const id of ids) pids.add((await ended(id)).value());
    assert.equal(pids.size, 1);
  });

  test('a job that hangs times out, and its neighbours go on', async () => {
    const hang = await enqueue('hang', 1, { timeout: 500, maxAttempts: 1 });
    assert.equal((await end('echo', 7)).value(), 7);
    assert.equal((await ended(hang)).state, 'dead');
    assert.equal((await end('echo', 8)).value(), 8);
  });

  test('an error that nobody catches ends the program, and its jobs run again', async () => {
    assert.equal((await end('crash')).value(), 2);
  });

  test('a rejection that nobody handles fails its own job', async () => {
    const status = await end('reject');
    assert.equal(status.value(), 2);
    assert.match(JSON.stringify(shown(status.id).attempts), /Error: rejected/);
  });

  test('the neighbours of a job that ends the program use up no attempt', async () => {
    const neighbour = await enqueue('neighbour', 1, { maxAttempts: 1 });
    await until('the neighbour', async () => fs.existsSync(path.join(folder, 'neighbour')));
    assert.equal((await end('crash')).value(), 2);
    assert.equal((await ended(neighbour)).value(), 1);
  });

  test('progress and logs are seen, and SIGTERM lets the job finish', async () => {
    const id = await enqueue('hold');
    await until('the progress', async () => (await producer.status(id))?.progress === 50);
    await until('the log', async () => JSON.stringify(shown(id).log).includes('holding'));
    assert.equal((await producer.status(id)).note, 'half');
    worker.kill('SIGTERM');
    fs.writeFileSync(path.join(folder, 'go on'), '');
    assert.equal(await exit, 0, said());
    const status = await producer.status(id);
    assert.equal(status.state, 'done');
    assert.throws(() => process.kill(status.value(), 0), { code: 'ESRCH' });
  });
});

const CONFIGURED = `
  const { Worker } = require(${JSON.stringify(SDK)});
  class Declined extends RangeError { constructor(message) { super(message); this.name = 'Declined'; } }
  const worker = new Worker();
  worker.errors([[SyntaxError, 'retry']]);
  const thrown = { range: new RangeError('x'), declined: new Declined('x'), syntax: new SyntaxError('x'), code: Object.assign(new Error('x'), { code: 'ENOENT' }), other: new Error('x') };
  worker.on('charge', (job) => { throw thrown[job.payload]; });
  worker.on('gift', (job) => (job.step === 'charge' ? { receipt: 7 } : [job.results.charge.receipt, job.step]));
  const met = { left: Promise.withResolvers?.() ?? resolvers(), right: Promise.withResolvers?.() ?? resolvers() };
  function resolvers() { const made = {}; made.promise = new Promise((resolve) => { made.resolve = resolve; }); return made; }
  worker.on('pair', async (job) => {
    if (job.step === 'both') return [job.results.left, job.results.right];
    met[job.step].resolve(job.step);
    return met[job.step === 'left' ? 'right' : 'left'].promise;
  });
  worker.on('member', (job) => job.payload);
  worker.on('total', (job) => job.payload);
  worker.run();
`;

test('the configuration decides about errors, steps have results, and batches are followed', { skip }, async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-node-'));
  const server = await startRedis();
  const client = await createRequire(path.join(CLIENTS, 'redis-5', 'package.json'))('redis').createClient({ url: server.url }).connect();
  const producer = new Producer(client);
  fs.writeFileSync(path.join(folder, 'worker.js'), CONFIGURED);
  fs.writeFileSync(
    path.join(folder, 'streamfleet.toml'),
    `[pools.node]
    command = [${JSON.stringify(process.execPath)}, "worker.js"]
    processes = 1
    inflight = 20
    [types.charge]
    handler.pool = "node"
    tracking = "all"
    max_attempts = 2
    backoff = { fixed = "50ms" }
    [types.charge.errors]
    RangeError = "fatal"
    Declined = "drop"
    SyntaxError = "fatal"
    "EN*" = "fatal"
    [types.gift]
    tracking = "all"
    [types.gift.steps.charge]
    kind = "once"
    handler.pool = "node"
    [types.gift.steps.mail]
    kind = "auto"
    after = ["charge"]
    handler.pool = "node"
    [types.pair]
    tracking = "all"
    timeout = "20s"
    concurrent_steps = 2
    [types.pair.steps]
    left = { kind = "auto", handler.pool = "node" }
    right = { kind = "auto", handler.pool = "node" }
    both = { kind = "auto", handler.pool = "node", after = ["left", "right"] }
    [types.member]
    handler.pool = "node"
    [types.total]
    handler.pool = "node"
    `,
  );
  const env = { ...process.env, STREAMFLEET__REDIS__URL: server.url, STREAMFLEET__TELEMETRY__LISTEN: `127.0.0.1:${await freePort()}` };
  const log = fs.openSync(path.join(folder, 'log'), 'w');
  const worker = spawn(BIN, ['worker'], { cwd: folder, env, stdio: ['ignore', log, log] });
  fs.closeSync(log);
  const exit = new Promise((resolve) => worker.once('exit', resolve));
  const ended = async (type, payload) => producer.wait(await producer.enqueue(type, payload), { timeout: DEADLINE_MS });
  try {
    for (const [payload, state, attempts] of [['range', 'dead', 1], ['declined', 'cancelled', 1], ['syntax', 'dead', 2], ['code', 'dead', 1], ['other', 'dead', 2]]) {
      const { id, state: found } = await ended('charge', payload);
      const shown = JSON.parse(execFileSync(BIN, ['status', id, '--json'], { cwd: folder, env, timeout: DEADLINE_MS }).toString());
      assert.deepEqual([found, shown.attempts.length], [state, attempts], payload);
    }
    assert.deepEqual((await ended('gift')).value().mail, [7, 'mail']);
    // Each of two steps returns what the other one is called, once both run.
    assert.deepEqual((await ended('pair')).value(), { both: ['right', 'left'], left: 'right', right: 'left' });

    const cli = new Cli({ command: [BIN], env });
    const members = [
      { type: 'member', payload: { n: 2n ** 64n - 1n } },
      { type: 'member', payload: Buffer.from('{\n"n": 2}'), encoding: 'json', id: 'own', headers: { tenant: 9 }, lane: 'high', timeout: '1.5s' },
      { type: 'member', payload: Buffer.from('Ännchen'), delay: 100, then: [{ type: 'member' }] },
    ];
    const follow = { type: 'total', payload: { month: 11 }, id: 'total-11' };
    const ids = ['mails-11.0', 'own', 'mails-11.2'];
    assert.deepEqual(await cli.batch('mails-11', members, follow), ids);
    assert.deepEqual((await producer.wait('total-11', { timeout: DEADLINE_MS })).value(), { month: 11 });
    assert.deepEqual(await cli.batch('mails-11', members, follow), ids);
    await assert.rejects(cli.batch('mails-12', [], follow), /a batch needs a member/);
  } catch (error) {
    throw new Error(`${error.stack}; the worker said: ${fs.readFileSync(path.join(folder, 'log'), 'utf8').slice(-4000)}`);
  } finally {
    worker.kill('SIGTERM');
    await exit;
    await client.destroy();
    await server.stop();
    fs.rmSync(folder, { recursive: true, force: true });
  }
});

test('the quick start of the README works', { skip }, async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-node-'));
  const port = await freePort();
  quickStart(folder, port);
  fs.mkdirSync(path.join(folder, 'bin'));
  fs.symlinkSync(fs.realpathSync(BIN), path.join(folder, 'bin', 'streamfleet'));
  const env = {
    ...process.env,
    PATH: [path.join(folder, 'bin'), path.dirname(process.execPath), process.env.PATH].join(path.delimiter),
    STREAMFLEET__TELEMETRY__LISTEN: `127.0.0.1:${await freePort()}`,
  };
  // The check starts the program and compares the types.
  const program = fs.readFileSync(path.join(folder, 'worker.js'), 'utf8');
  fs.writeFileSync(path.join(folder, 'more.js'), program.replace('worker.run()', "worker.on('invoice.total', () => 1);\nworker.run()"));
  fs.writeFileSync(path.join(folder, 'pools.toml'), fs.readFileSync(path.join(folder, 'pools.toml'), 'utf8').replace('worker.js', 'more.js'));
  const checked = execFileSync(BIN, ['--config', 'pools.toml', 'config', 'check'], { cwd: folder, env, timeout: DEADLINE_MS, stdio: 'pipe' });
  assert.equal(checked.toString(), 'the configuration is valid\n');
  const script = (how) => ['-euc', blocks(`shell ${how}`)[0].code.replaceAll('6390', String(port))];
  const log = fs.openSync(path.join(folder, 'dev.log'), 'w');
  const dev = spawn('sh', script('dev'), { cwd: folder, env, stdio: ['ignore', log, log], detached: true });
  fs.closeSync(log);
  const ended = new Promise((resolve) => dev.once('exit', resolve));
  try {
    const end = Date.now() + DEADLINE_MS;
    for (;;) {
      const said = () => fs.readFileSync(path.join(folder, 'dev.log'), 'utf8').slice(-4000);
      assert.equal(dev.exitCode, null, said());
      try {
        // Its Redis may not have started yet.
        const printed = execFileSync('sh', script('submit'), { cwd: folder, env, timeout: DEADLINE_MS, stdio: 'pipe' }).toString();
        assert.equal(printed, "{ greeting: 'Hello Ann' }\n");
        break;
      } catch (error) {
        if (error instanceof assert.AssertionError || Date.now() > end) throw new Error(`${error.message}; dev said: ${said()}`);
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  } finally {
    try {
      process.kill(-dev.pid, 'SIGINT');
    } catch {
      // It has ended.
    }
    const timer = setTimeout(() => process.kill(-dev.pid, 'SIGKILL'), DEADLINE_MS);
    await ended;
    clearTimeout(timer);
    fs.rmSync(folder, { recursive: true, force: true });
  }
});

/** Runs a program to its end and returns what it printed. */
function printed(args, options) {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { timeout: DEADLINE_MS, ...options }, (error, stdout, stderr) => (error ? reject(new Error(`${error.message}${stderr}`)) : resolve(stdout)));
  });
}

test('the example of the project runs', { skip }, async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-node-'));
  const server = await startRedis();
  quickStart(folder, server.port);
  const code = (name) => blocks(`node ${name}`, HANDLERS_PAGE)[0].code;
  fs.writeFileSync(path.join(folder, 'worker.js'), code('worker.js'));
  fs.writeFileSync(path.join(folder, 'streamfleet.toml'), `${code('streamfleet.toml')}tracking = "all"\n`);
  const program = `(async () => {
    const redis = await require('redis').createClient({ url: '${server.url}' }).connect();
    ${code('enqueue')}
    console.log((await producer.wait(id, { timeout: '30s' })).value());
    await redis.quit();
  })();`;
  const env = {
    ...process.env,
    PATH: [path.dirname(process.execPath), process.env.PATH].join(path.delimiter),
    STREAMFLEET__REDIS__URL: server.url,
    STREAMFLEET__TELEMETRY__LISTEN: `127.0.0.1:${await freePort()}`,
  };
  const log = fs.openSync(path.join(folder, 'log'), 'w');
  const worker = spawn(BIN, ['worker'], { cwd: folder, env, stdio: ['ignore', log, log] });
  fs.closeSync(log);
  const ended = new Promise((resolve) => worker.once('exit', resolve));
  try {
    assert.equal(await printed(['-e', program], { cwd: folder, env }), "{ sent_to: 'ann@example.com' }\n");
  } catch (error) {
    throw new Error(`${error.message}; the worker said: ${fs.readFileSync(path.join(folder, 'log'), 'utf8')}`);
  } finally {
    worker.kill('SIGTERM');
    await ended;
    await server.stop();
    fs.rmSync(folder, { recursive: true, force: true });
  }
});

test('the command line of the README accepts an id once, and opens a batch', { skip }, async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-node-'));
  const server = await startRedis();
  try {
    quickStart(folder, server.port);
    fs.symlinkSync(fs.realpathSync(BIN), path.join(folder, 'streamfleet'));
    const env = { ...process.env, PATH: [folder, process.env.PATH].join(path.delimiter), STREAMFLEET__REDIS__URL: server.url };
    for (const [how, want] of [['cli', 'true false\n'], ['batch', "[ 'invoices-2026-11.0', 'invoices-2026-11.1' ]\n"]]) {
      assert.equal(await printed(['-e', `(async () => {\n${blocks(how)[0].code}})();`], { cwd: folder, env }), want);
    }
  } finally {
    await server.stop();
    fs.rmSync(folder, { recursive: true, force: true });
  }
});
