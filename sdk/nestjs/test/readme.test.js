'use strict';

// Every code block of the README: the quick start with the real program, the others here.

const assert = require('node:assert/strict');
const { execFileSync, spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { blocks: found } = require('../../node/test/readme.js');
const { freePort } = require('../../node/test/server.js');
const { MODULES, eventually, skip } = require('./stage.js');

const blocks = (how) => found(how, path.join(__dirname, '..', 'README.md'));

test('every block says how it is run', () => {
  for (const { how, code } of blocks()) assert.match(how, /^(shell (install|dev|submit)|file \S+|unit)$/, code);
});

test('examples of tests pass', { skip: MODULES === undefined && 'check.sh installs the packages' }, () => {
  for (const { code } of blocks('unit')) {
    assert.equal(execFileSync(process.execPath, ['-e', code], { cwd: MODULES, stdio: 'pipe' }).toString(), '');
  }
});

test('the quick start works', { skip, timeout: 600_000 }, async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-nest-'));
  const port = await freePort();
  const cwd = path.join(folder, 'shop');
  fs.mkdirSync(path.join(folder, 'streamfleet'), { recursive: true });
  fs.symlinkSync(path.join(__dirname, '..', '..'), path.join(folder, 'streamfleet', 'sdk'));
  fs.mkdirSync(cwd);
  fs.mkdirSync(path.join(folder, 'bin'));
  fs.symlinkSync(fs.realpathSync(process.env.STREAMFLEET_BIN), path.join(folder, 'bin', 'streamfleet'));
  const env = {
    ...process.env,
    PATH: [path.join(folder, 'bin'), path.dirname(process.execPath), process.env.PATH].join(path.delimiter),
    STREAMFLEET__TELEMETRY__LISTEN: `127.0.0.1:${await freePort()}`,
  };
  const script = (how) => ['-euc', blocks(`shell ${how}`)[0].code.replaceAll('6390', String(port))];
  execFileSync('sh', script('install'), { cwd, env, stdio: 'pipe', timeout: 300_000 });
  for (const { how, code } of blocks()) {
    if (how.startsWith('file ')) fs.writeFileSync(path.join(cwd, how.slice(5)), code.replaceAll('6390', String(port)));
  }
  const log = fs.openSync(path.join(folder, 'log'), 'w');
  const dev = spawn('sh', script('dev'), { cwd, env, stdio: ['ignore', log, log], detached: true });
  fs.closeSync(log);
  const ended = new Promise((resolve) => dev.once('exit', resolve));
  try {
    let printed;
    await eventually('the worker', async () => fs.existsSync(path.join(cwd, '.streamfleet', 'password')) || dev.exitCode !== null);
    await eventually('the result', async () => {
      assert.equal(dev.exitCode, null);
      try {
        // Its Redis may not have started yet.
        printed = execFileSync('sh', script('submit'), { cwd, env, stdio: 'pipe', timeout: 60_000 }).toString();
        return true;
      } catch {
        return false;
      }
    });
    assert.equal(printed, '{ size: 8 }\n');
  } catch (error) {
    throw new Error(`${error.stack}\n${fs.readFileSync(path.join(folder, 'log'), 'utf8').slice(-4000)}`);
  } finally {
    try {
      process.kill(-dev.pid, 'SIGINT');
    } catch {
      // It has ended.
    }
    await ended;
    fs.rmSync(folder, { recursive: true, force: true });
  }
});
