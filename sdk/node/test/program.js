'use strict';

// Plays the worker's part of the pool protocol: starts a program, and talks to it through pipes.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const path = require('node:path');

const SDK = path.dirname(__dirname);
const DEADLINE_MS = 20_000;

// Node connects its children by sockets, which a program cannot open again. A worker uses pipes, and so does this script. What
// happens to the program is told on descriptor 3.
const PIPES = `cat | {
  exec 6>&1
  { exec 5<&0; "$@" <&5 5<&- 3>&- 2>&1 >&6 6>&- & echo "pid $!" >&3; wait $!; echo "exit $?" >&3; } | cat >&2 3>&- 6>&-
} | cat`;

/** A program of a pool. Every wait has a deadline. */
class Program {
  #buffer = '';
  #lines = [];
  #hasEnded = false;
  #waiters = [];
  #refs = 0;
  #told = '';
  #exit;
  errors = '';

  /** @param {string} code the program, with `sdk` and what it exports in scope */
  constructor(code, { sockets = false, args, env = {}, cwd } = {}) {
    const names = Object.keys(require(SDK)).join(', ');
    const script = `const sdk = require(${JSON.stringify(SDK)}); const { ${names} } = sdk; ${code}`;
    const command = [process.execPath, ...(args ?? ['-e', script])];
    const [file, ...rest] = sockets ? command : ['sh', '-c', PIPES, 'sh', ...command];
    this.child = spawn(file, rest, {
      stdio: ['pipe', 'pipe', 'pipe', sockets ? 'ignore' : 'pipe'],
      env: { ...process.env, STREAMFLEET_POOL: 'node', STREAMFLEET_PROTOCOL: '1', ...env },
      cwd,
      detached: true,
    });
    this.child.stdin.on('error', () => {});
    this.child.stderr.on('data', (data) => {
      this.errors += data;
      this.#wake();
    });
    this.child.stdio[3]?.on('data', (data) => {
      this.#told += data;
      this.#wake();
    });
    this.child.on('exit', (code_, signal) => {
      this.#exit = code_ ?? signal;
      this.#wake();
    });
    this.child.stdout.setEncoding('utf8');
    this.read();
  }

  /** Reads what the program writes; before `pause` and after `read`. */
  read() {
    if (this.child.stdout.listenerCount('data') === 0) {
      this.child.stdout.on('data', (data) => {
        const lines = (this.#buffer + data).split('\n');
        this.#buffer = lines.pop();
        this.#lines.push(...lines);
        this.#wake();
      });
      this.child.stdout.on('end', () => {
        this.#hasEnded = true;
        this.#wake();
      });
    }
    this.child.stdout.resume();
  }

  pause() {
    this.child.stdout.pause();
  }

  #wake() {
    for (const wake of this.#waiters.splice(0)) wake();
  }

  /** Waits for a condition. */
  async until(what, holds) {
    const until = Date.now() + DEADLINE_MS;
    for (;;) {
      const value = holds();
      if (value !== undefined && value !== false) return value;
      const left = until - Date.now();
      assert.ok(left > 0, `${what}: not within ${DEADLINE_MS} ms; standard error: ${this.errors}`);
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, left);
        this.#waiters.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }

  raw(data) {
    this.child.stdin.write(data);
  }

  send(message) {
    this.raw(`${JSON.stringify(message)}\n`);
  }

  /** Greets the program, by default as the first workers do. */
  async hello(inflight = 1, more = {}) {
    this.send({ type: 'hello', protocol: 1, streamfleet: '0.9.0', pool: 'node', inflight, new: 1, ...more });
    const ready = await this.next();
    assert.equal(ready?.type, 'ready', JSON.stringify(ready));
    return ready;
  }

  /** Returns the line of a job, and its ref. */
  line(jobType, payload, more = {}) {
    this.#refs += 1;
    const ref = String(this.#refs);
    const message = {
      type: 'job',
      ref,
      id: `job-${ref}`,
      job_type: jobType,
      queue: 'default',
      attempt: 1,
      max_attempts: 5,
      timeout_ms: 30_000,
      created_ms: 1_700_000_000_000,
      headers: {},
      encoding: 'json',
      payload,
      'of a later version': true,
      ...more,
    };
    if (more.payload_base64 !== undefined) delete message.payload;
    return { ref, line: `${JSON.stringify(message)}\n` };
  }

  job(jobType, payload, more) {
    const { ref, line } = this.line(jobType, payload, more);
    this.raw(line);
    return ref;
  }

  /** The next line, parsed; null at the end of the output. */
  async next() {
    const line = await this.until('a line', () => (this.#lines.length > 0 ? this.#lines.shift() : this.#hasEnded ? null : undefined));
    return line === null ? null : JSON.parse(line);
  }

  /** The next line as text, without taking it. */
  peek() {
    return this.#lines[0];
  }

  /** The next result, without what was logged and reported before it. */
  async result(ref) {
    for (;;) {
      const message = await this.next();
      assert.ok(message, `the program ended; standard error: ${this.errors}`);
      if (message.type !== 'result') continue;
      if (ref !== undefined) assert.equal(message.ref, ref);
      const { type: _type, ref: _ref, ...rest } = message;
      return ref === undefined ? message : rest;
    }
  }

  /** Runs a job and returns its result. */
  async ask(jobType, payload, more) {
    return this.result(this.job(jobType, payload, more));
  }

  close() {
    this.child.stdin.end();
  }

  async signal(name) {
    const pid = this.child.stdio[3] ? await this.until('the pid', () => /pid ([0-9]+)/.exec(this.#told)?.[1]) : this.child.pid;
    process.kill(Number(pid), name);
  }

  /** Everything up to the end of the output, and the exit code. */
  async end() {
    const lines = [];
    const code = await this.until('the exit', () => (this.child.stdio[3] ? /exit ([0-9]+)/.exec(this.#told)?.[1] : this.#exit?.toString()));
    this.close();
    for (;;) {
      const line = await this.next();
      if (line === null) return { lines, code: Number(code) };
      lines.push(line);
    }
  }

  kill() {
    try {
      process.kill(-this.child.pid, 'SIGKILL');
    } catch {
      // It has ended.
    }
  }
}

/** Runs a test with a program, and ends the program. */
async function withProgram(code, options, test) {
  if (typeof options === 'function') [options, test] = [{}, options];
  const program = new Program(code, options);
  try {
    await test(program);
  } finally {
    program.kill();
  }
}

module.exports = { Program, withProgram, SDK };
