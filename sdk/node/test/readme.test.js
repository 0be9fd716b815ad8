// Runs every code block of the README. STREAMFLEET_BIN is the path to `streamfleet`: without it, the worker is played.
'use strict';

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { SDK, program } = require('./pool.js');
const { clients, connect, freePort, server } = require('./server.js');

const BIN = process.env.STREAMFLEET_BIN && path.resolve(process.env.STREAMFLEET_BIN);
const FENCE = /^(?:<!-- run: ([^\n]*) -->\n)?```(\w+)\n([\s\S]*?)^```$/gm;
const blocks = [...fs.readFileSync(path.join(SDK, 'README.md'), 'utf8').matchAll(FENCE)].map(([, how = '', , code]) => ({ how, code }));
const codeOf = (how) => blocks.find((block) => block.how === how).code;

/** A folder in which `require('streamfleet')` and the clients are found. */
function folder(t) {
  const name = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-'));
  t.after(() => fs.rmSync(name, { recursive: true }));
  const modules = path.join(name, 'node_modules');
  fs.mkdirSync(path.join(modules, '.bin'), { recursive: true });
  fs.symlinkSync(SDK, path.join(modules, 'streamfleet'));
  fs.writeFileSync(path.join(modules, '.bin', 'streamfleet-pool'), `#!/bin/sh\nexec ${process.execPath} ${path.join(SDK, 'pool.js')} "$@"\n`, { mode: 0o755 });
  return name;
}

function quickStart(t, port) {
  const name = folder(t);
  for (const { how, code } of blocks.filter((block) => block.how.startsWith('file '))) {
    fs.writeFileSync(path.join(name, how.slice(5)), code.replaceAll('6390', port));
  }
  return name;
}

function shell(code, cwd, env) {
  const child = spawn('bash', ['-euc', code], { cwd, env: { ...process.env, ...env }, detached: true });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (said += data));
  return { child, said: () => said, exit: new Promise((resolve) => child.on('close', resolve)) };
}

test('every block says how it is run', () => {
  for (const { how, code } of blocks) assert.match(how, /^(shell (install|dev|submit)|file \S+|program|unit|producer)$/, code);
});

test('examples of handlers run', async (t) => {
  const asked = {
    'order.import': {
      done: { lines: [1, 2] }, fatal: { lines: [] }, drop: { lines: [1], cancelled: true }, snooze: { lines: [1], shop: 'closed' },
      retry: { lines: [1], busy: true },
    },
    'invoice.send': { done: { invoice: { number: 7 } }, fatal: {} },
  };
  const programs = blocks.filter((block) => block.how === 'program');
  assert.equal(programs.length, Object.keys(asked).length);
  for (const { code } of programs) {
    const one = program(t, code, { cwd: folder(t) });
    const [type] = (await one.hello(50)).types;
    for (const [outcome, payload] of Object.entries(asked[type])) assert.equal((await one.ask(type, payload)).outcome, outcome);
  }
});

test('examples of tests pass', async (t) => {
  const { exit, said } = shell(`${process.execPath} - <<'CODE'\n${codeOf('unit')}CODE`, folder(t));
  assert.equal(await exit, 0, said());
});

for (const kind of Object.keys(clients)) {
  test(`examples of producers run with ${kind}`, { skip: clients[kind] ? false : `${kind} is not installed` }, async (t) => {
    const client = await connect(t, kind, await server(t));
    const name = path.join(folder(t), 'producer.js');
    fs.writeFileSync(name, `${codeOf('producer')}\nmodule.exports = submit;`);
    await require(name)(client);
    const count = (key) => (client.call ? client.call('XLEN', key) : client.sendCommand(['XLEN', key]));
    assert.deepEqual([await count('sf:{mail}:jobs'), await count('sf:{mail}:jobs:high')], [1004, 1]);
  });
}

const skip = clients.ioredis ? false : 'ioredis is not installed';

test('the quick start works with a worker that is played', { skip }, async (t) => {
  const port = await server(t, '--requirepass', 'secret');
  const name = quickStart(t, port);
  fs.mkdirSync(path.join(name, '.streamfleet'));
  fs.writeFileSync(path.join(name, '.streamfleet', 'password'), 'secret\n');
  const one = program(t, null, { args: [path.join(SDK, 'pool.js'), 'jobs.js'], cwd: name });
  assert.deepEqual((await one.hello(50)).types, ['greet']);
  const client = await connect(t, 'ioredis', port, { password: 'secret' });
  const submit = shell(codeOf('shell submit'), name);
  const [[, [[entry]]]] = await client.xread('BLOCK', 20000, 'STREAMS', 'sf:{default}:jobs', '0');
  const { result } = await one.ask('greet', { name: 'Ann' });
  await client.hset(`sf:{default}:job:${entry}`, 'state', 'done', 'result', JSON.stringify(result));
  assert.equal(await submit.exit, 0, submit.said());
  assert.equal(submit.said(), "{ greeting: 'Hello Ann' }\n");
});

test('the quick start works with the real program', { skip: skip || (BIN ? false : 'STREAMFLEET_BIN is not set') }, async (t) => {
  const port = await freePort();
  const name = quickStart(t, port);
  const env = { PATH: `${path.dirname(BIN)}:${process.env.PATH}`, STREAMFLEET__TELEMETRY__LISTEN: `127.0.0.1:${await freePort()}` };
  const dev = shell(codeOf('shell dev').replaceAll('6390', port), name, env);
  t.after(async () => {
    if (dev.child.exitCode === null) process.kill(-dev.child.pid, 'SIGINT');
    await dev.exit;
  });
  const until = Date.now() + 60000;
  for (;;) {
    // Before its Redis has started, there is no password yet.
    if (fs.existsSync(path.join(name, '.streamfleet', 'password'))) {
      const submit = shell(codeOf('shell submit'), name);
      if ((await submit.exit) === 0) {
        assert.match(submit.said(), /\{ greeting: 'Hello Ann' \}/);
        return;
      }
      assert.ok(Date.now() < until, submit.said() + dev.said());
    }
    assert.ok(Date.now() < until && dev.child.exitCode === null, dev.said());
    await sleep(100);
  }
});
