// A Redis of a test's own, on a free port of the loopback, in a folder of its own, and the clients that are installed.
'use strict';

const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');

function freePort() {
  return new Promise((resolve, reject) => {
    const listener = net.createServer().on('error', reject);
    listener.listen(0, '127.0.0.1', () => {
      const { port } = listener.address();
      listener.close(() => resolve(port));
    });
  });
}

function binary() {
  const names = [process.env.STREAMFLEET_TEST_REDIS, 'redis-server', 'valkey-server'].filter(Boolean);
  return names.find((name) => spawnSync(name, ['--version']).status === 0);
}

async function answers(port) {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () => socket.write('PING\r\n'));
    socket.on('data', (data) => socket.destroy() && resolve(/^(\+PONG|-NOAUTH)/.test(data)));
    socket.on('error', () => resolve(false));
  });
}

async function server(t, ...options) {
  const name = binary();
  if (!name) throw new Error('neither redis-server nor valkey-server is on the PATH');
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-'));
  const port = await freePort();
  const child = spawn(name, ['--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder, ...options].map(String), { stdio: 'ignore' });
  const ended = new Promise((resolve) => child.on('exit', resolve));
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
    fs.rmSync(folder, { recursive: true });
  });
  const until = Date.now() + 20000;
  while (!(await answers(port))) {
    if (Date.now() > until) throw new Error('the Redis of this test did not start');
    await sleep(10);
  }
  return port;
}

function optional(name) {
  try {
    return require(name);
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    return undefined;
  }
}

const clients = { ioredis: optional('ioredis'), 'node-redis': optional('redis') };

/** Connects a client of this kind, which ends with the test. */
async function connect(t, kind, port, options = {}) {
  if (kind === 'ioredis') {
    const Redis = clients.ioredis.default || clients.ioredis;
    const client = new Redis({ port, ...options });
    client.on('error', () => {});
    t.after(() => client.disconnect());
    return client;
  }
  const client = clients['node-redis'].createClient({ ...options, socket: { port, host: '127.0.0.1', ...options.socket } });
  client.on('error', () => {});
  await client.connect();
  t.after(() => (client.destroy ? client.destroy() : client.disconnect()));
  return client;
}

module.exports = { clients, connect, freePort, server };
