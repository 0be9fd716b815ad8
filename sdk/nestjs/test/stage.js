'use strict';

// What the tests and the measurement need: Redis servers, the application of test/app for both drivers, programs that are ended for certain.
// check.sh installs everything into STREAMFLEET_NEST_MODULES, a folder with a node_modules.

const assert = require('node:assert/strict');
const { execFileSync, spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { freePort, startRedis, until } = require('../../node/test/server.js');

const BIN = process.env.STREAMFLEET_BIN;
const MODULES = process.env.STREAMFLEET_NEST_MODULES;
const APP = path.join(__dirname, 'app');
const DEADLINE_MS = 60_000;

/** The application in a folder of its own, compiled for BullMQ, or with other imports for streamfleet. */
function compiled(folder, driver) {
  const target = path.join(folder, driver);
  fs.mkdirSync(target);
  fs.symlinkSync(path.join(MODULES, 'node_modules'), path.join(target, 'node_modules'));
  for (const name of fs.readdirSync(APP)) {
    const text = fs.readFileSync(path.join(APP, name), 'utf8');
    const own = driver === 'streamfleet' ? text.replace(/from '(?:@nestjs\/bullmq|bullmq)'/g, "from '@streamfleet/nestjs'") : text;
    fs.writeFileSync(path.join(target, name), own);
  }
  execFileSync(path.join(MODULES, 'node_modules', '.bin', 'tsc'), ['-p', target], { cwd: target, stdio: 'inherit', timeout: 4 * DEADLINE_MS });
  return target;
}

/** Runs a body with a folder, a server and programs, and ends all of them. */
async function staged(body) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-nest-'));
  const server = await startRedis();
  const programs = [];
  const stage = {
    folder,
    server,
    journal: (driver) => {
      const file = path.join(folder, `${driver}.journal`);
      return fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n').filter((line) => line !== '').map((line) => JSON.parse(line)) : [];
    },
    log: (name) => fs.readFileSync(path.join(folder, `${name}.log`), 'utf8'),
    /** Starts a program; what it prints goes into NAME.log. */
    start: (name, command, cwd, env = {}) => {
      const log = fs.openSync(path.join(folder, `${name}.log`), 'a');
      const own = { REDIS_PORT: String(server.port), JOURNAL: path.join(folder, `${name.split('.')[0]}.journal`), ...env };
      const program = spawn(command[0], command.slice(1), { cwd, env: { ...process.env, ...own }, stdio: ['ignore', log, log] });
      fs.closeSync(log);
      program.ended = new Promise((resolve) => program.once('exit', (code, signal) => resolve(code ?? signal)));
      programs.push(program);
      return program;
    },
    /** Starts a worker for the application in this folder. */
    worker: async (cwd, { processes = 1, inflight = 10, name = 'streamfleet', lease = '15s', file = 'shop.module', prefetch = 0, queue = '', types = ['mail', 'payments', 'orders'] } = {}) => {
      const sections = types.map((type) => `[types.${type}]\nhandler.pool = "nest"\nbackoff = { fixed = "1ms" }\njitter = 0\n${queue}`);
      const command = JSON.stringify([process.execPath, path.join(MODULES, 'node_modules', '@streamfleet', 'nestjs', 'bin.js'), `dist/${file}.js`]);
      const settings = path.join(cwd, `${name}.toml`);
      const pool = `[pools.nest]\ncommand = ${command}\nprocesses = ${processes}\ninflight = ${inflight}\nstart = "eager"\nstart_timeout = "60s"\npass_env = ["REDIS_PORT", "JOURNAL"]\n`;
      fs.writeFileSync(
        settings,
        `[redis]\nurl = "${server.url}"\n[worker]\nlease = "${lease}"\nprefetch = ${prefetch}\n[telemetry]\nlisten = "127.0.0.1:${await freePort()}"\n[queues.default]\nconcurrency = ${Math.max(50, processes * inflight)}\n${pool}${sections.join('')}`,
      );
      return stage.start(name, [BIN, '--config', settings, 'worker'], cwd);
    },
  };
  try {
    return await body(stage);
  } catch (error) {
    const said = fs.readdirSync(folder).filter((name) => name.endsWith('.log')).map((name) => `${name}:\n${stage.log(name.slice(0, -4)).slice(-3000)}`);
    throw new Error(`${error.stack}\n${said.join('\n')}`);
  } finally {
    for (const program of programs) {
      program.kill('SIGKILL');
      await program.ended;
    }
    await server.stop();
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

/** Waits longer than the tests of the package for Node, because compilers and applications start meanwhile. */
async function eventually(what, holds, within = DEADLINE_MS) {
  const end = Date.now() + within;
  for (;;) {
    if (await holds()) return;
    if (Date.now() > end) assert.fail(`${what}: not within ${within} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const skip = (BIN === undefined && 'STREAMFLEET_BIN is not set') || (MODULES === undefined && 'check.sh installs the packages');

module.exports = { BIN, MODULES, compiled, eventually, skip, staged, until };
