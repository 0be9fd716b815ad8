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

/** Sends a command and returns the raw reply. */
function ask(port, ...args) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, '127.0.0.1');
    socket.on('error', reject);
    socket.once('data', (data) => {
      socket.destroy();
      resolve(data.toString());
    });
    socket.write(`*${args.length}\r\n${args.map((arg) => `$${Buffer.byteLength(arg)}\r\n${arg}\r\n`).join('')}`);
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

async function startRedis({ cluster = false } = {}) {
  const port = await freePort();
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-node-'));
  const program = process.env.STREAMFLEET_TEST_REDIS ?? 'redis-server';
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', folder];
  const child = spawn(program, cluster ? [...args, '--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1'] : args, { stdio: 'ignore' });
  await until('the server', async () => (await ask(port, 'PING')).startsWith('+PONG'));
  if (cluster) {
    await ask(port, 'CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
    await until('the cluster', async () => (await ask(port, 'CLUSTER', 'INFO')).includes('cluster_state:ok'));
  }
  const stop = async () => {
    child.kill('SIGKILL');
    await new Promise((resolve) => (child.exitCode ?? child.signalCode) === null ? child.once('exit', resolve) : resolve());
    fs.rmSync(folder, { recursive: true, force: true });
  };
  return { port, url: `redis://127.0.0.1:${port}`, ask: (...command) => ask(port, ...command), stop };
}

module.exports = { startRedis, until };
