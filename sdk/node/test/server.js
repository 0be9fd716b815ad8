'use strict';

// Starts a Redis server of its own for a test: its own port, its own folder, nothing on disk.

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');

const DEADLINE_MS = 20_000;

async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const encoded = (args) => `*${args.length}\r\n${args.map((arg) => `$${Buffer.byteLength(arg)}\r\n${arg}\r\n`).join('')}`;

/** Sends a command and returns the beginning of the raw reply. */
function ask(port, password, ...args) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, '127.0.0.1');
    let replied = '';
    socket.on('error', reject);
    socket.on('data', (data) => {
      replied += data;
      const reply = password === undefined ? replied : replied.replace(/^\+OK\r\n/, '');
      if (reply === '') return;
      socket.destroy();
      resolve(reply);
    });
    socket.write(password === undefined ? encoded(args) : encoded(['AUTH', password]) + encoded(args));
  });
}

async function until(what, holds) {
  const end = Date.now() + DEADLINE_MS;
  for (;;) {
    const value = await holds().catch(() => undefined);
    if (value) return value;
    if (Date.now() > end) throw new Error(`${what}: not within ${DEADLINE_MS} ms`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function startRedis({ cluster = false, password } = {}) {
  const port = await freePort();
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-node-'));
  const program = process.env.STREAMFLEET_TEST_REDIS ?? 'redis-server';
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', folder];
  if (password !== undefined) args.push('--requirepass', password);
  const child = spawn(program, cluster ? [...args, '--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1'] : args, { stdio: 'ignore' });
  await until('the server', async () => (await ask(port, password, 'PING')).startsWith('+PONG'));
  if (cluster) {
    await ask(port, password, 'CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
    await until('the cluster', async () => (await ask(port, password, 'CLUSTER', 'INFO')).includes('cluster_state:ok'));
  }
  const stop = async () => {
    child.kill('SIGKILL');
    await new Promise((resolve) => (child.exitCode ?? child.signalCode) === null ? child.once('exit', resolve) : resolve());
    fs.rmSync(folder, { recursive: true, force: true });
  };
  return { port, url: `redis://127.0.0.1:${port}`, ask: (...command) => ask(port, password, ...command), stop };
}

module.exports = { freePort, startRedis, until };
