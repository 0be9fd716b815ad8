// Plays the worker's part of the pool protocol: starts a program, and talks to it through pipes. Every wait has a deadline.
'use strict';

const { execFileSync, spawn } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const readline = require('node:readline');

const SDK = path.dirname(__dirname);
const DEADLINE_MS = 20000;

function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what()} within ${DEADLINE_MS} ms`)), DEADLINE_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Returns both ends of a pipe. Node itself gives its children sockets, unlike a worker. */
function pipe() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-'));
  const name = path.join(folder, 'pipe');
  execFileSync('mkfifo', [name]);
  const read = fs.openSync(name, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  const write = fs.openSync(name, fs.constants.O_WRONLY);
  fs.rmSync(folder, { recursive: true });
  return [read, write];
}

class Program {
  constructor(code, { args, cwd, env } = {}) {
    const command = args || ['-e', code];
    const [theirInput, input] = pipe();
    const [output, theirOutput] = pipe();
    const [errors, theirErrors] = pipe();
    this.process = spawn(process.execPath, command, {
      cwd: cwd || SDK,
      env: { ...process.env, STREAMFLEET_POOL: 'node', STREAMFLEET_PROTOCOL: '1', ...env },
      detached: true,
      stdio: [theirInput, theirOutput, theirErrors],
    });
    for (const fd of [theirInput, theirOutput, theirErrors]) fs.closeSync(fd);
    this.input = new net.Socket({ fd: input, readable: false, writable: true });
    this.output = new net.Socket({ fd: output, readable: true, writable: false });
    this.errors = new net.Socket({ fd: errors, readable: true, writable: false });
    this.refs = 0;
    this.stderr = '';
    this.errors.on('data', (data) => (this.stderr += data));
    this.input.on('error', () => {});
    this.lines = readline.createInterface({ input: this.output })[Symbol.asyncIterator]();
    this.exit = new Promise((resolve) => {
      this.process.on('exit', (code) => (this.errors.readableEnded ? resolve(code) : this.errors.on('end', () => resolve(code))));
    });
  }

  send(message) {
    this.input.write(JSON.stringify(message) + '\n');
  }

  async hello(inflight = 1) {
    this.send({ type: 'hello', protocol: 1, streamfleet: '0.9.0', pool: 'node', inflight });
    return this.read();
  }

  job(jobType, payload, more = {}) {
    const ref = String((this.refs += 1));
    const common = { type: 'job', ref, id: `job-${ref}`, job_type: jobType, queue: 'default', attempt: 1, max_attempts: 5 };
    const body = more.payload_base64 === undefined ? { payload } : {};
    this.send({ ...common, timeout_ms: 30000, created_ms: 1700000000000, headers: {}, encoding: 'json', ...body, ...more });
    return ref;
  }

  /** The next line, parsed; undefined at the end. */
  async read() {
    const { value, done } = await within(this.lines.next(), () => `no line; standard error: ${this.stderr}`);
    return done ? undefined : JSON.parse(value);
  }

  async result() {
    for (;;) {
      const message = await this.read();
      if (message === undefined) throw new Error(`the program has ended: ${this.stderr}`);
      if (message.type === 'result') return message;
    }
  }

  async ask(...args) {
    this.job(...args);
    return this.result();
  }

  async end() {
    const lines = [];
    for (let line = await this.read(); line !== undefined; line = await this.read()) lines.push(line);
    return [lines, await within(this.exit, () => 'no end')];
  }

  kill() {
    this.input.destroy();
    this.output.destroy();
    this.errors.destroy();
    try {
      process.kill(-this.process.pid, 'SIGKILL');
    } catch {
      // It has ended already.
    }
  }
}

/** A program that ends with its test. */
function program(t, ...args) {
  const one = new Program(...args);
  t.after(() => one.kill());
  return one;
}

module.exports = { DEADLINE_MS, Program, SDK, program, within };
