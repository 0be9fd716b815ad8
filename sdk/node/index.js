// Handlers and producers for streamfleet, in Node. Handlers need no dependency: the worker, a program of its own, starts this process
// and gives it jobs over a pipe. Producers use your own client, ioredis or node-redis, and send one XADD per job.
'use strict';

const fs = require('node:fs');
const net = require('node:net');
const { AsyncLocalStorage } = require('node:async_hooks');
const { setTimeout: sleep } = require('node:timers/promises');

const VERSION = '0.1.0';
const PROTOCOL = 1;
const MAX_LINE_BYTES = 16 * 1024 * 1024;
const MAX_ERROR_BYTES = 4096;
const MAX_LOG_BYTES = 8192;
const LATER_MS = 1000;

// ---- JSON that every language reads back as it was ----

function refuse(key, value) {
  if (typeof value === 'bigint') throw new TypeError('a BigInt cannot be sent as JSON: send it as text');
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new TypeError(`${value} cannot be sent as JSON`);
    // From 1e21 on, numbers are written with an exponent, so nobody takes them for exact.
    if (Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21) {
      throw new TypeError(`${value} is beyond 2**53 and may have been rounded: send it as text`);
    }
  }
  for (const text of [key, value]) {
    if (typeof text === 'string' && text.isWellFormed && !text.isWellFormed()) {
      throw new TypeError('a text with half of a surrogate pair cannot be sent as JSON');
    }
  }
  if (value instanceof Map || value instanceof Set) throw new TypeError('a Map or a Set would be sent as {}: send an array or an object');
  if (typeof value === 'function' || typeof value === 'symbol') throw new TypeError(`a ${typeof value} cannot be sent as JSON`);
  return value;
}

/** Encodes strictly: what JSON.stringify would silently turn into null or {} is an error. */
function encode(value) {
  return JSON.stringify(value === undefined ? null : value, refuse);
}

/** Cuts a text to what its reader keeps. */
function cut(text, most = MAX_ERROR_BYTES) {
  const data = Buffer.from(String(text));
  if (data.length <= most) return data.toString();
  // A character that was cut in two becomes U+FFFD, which is taken away.
  return data.subarray(0, most - 4).toString().replace(/\uFFFD$/, '') + ' …';
}

function milliseconds(name, value, least = 0) {
  if (typeof value !== 'number') throw new TypeError(`${name} is a number of milliseconds, not ${typeof value}`);
  if (!Number.isFinite(value) || Math.round(value) < least) throw new RangeError(`${name} is ${value}; the least is ${least}`);
  return Math.round(value);
}

// ---- Outcomes ----

/** How an attempt ended. A handler returns one, or throws it. */
class Outcome extends Error {
  constructor(message) {
    super(message);
    this.name = new.target.name;
  }
}

class Done extends Outcome {
  constructor(result) {
    super('done');
    this.result = result;
  }

  fields() {
    if (this.result instanceof Uint8Array) {
      return { outcome: 'done', result_base64: Buffer.from(this.result).toString('base64') };
    }
    return this.result === undefined || this.result === null ? { outcome: 'done' } : { outcome: 'done', result: this.result };
  }
}

class Retry extends Outcome {
  constructor(error, options = {}) {
    super(String(error instanceof Error ? error.message : error));
    this.delayMs = options.delayMs === undefined ? undefined : milliseconds('delayMs', options.delayMs);
  }

  fields() {
    return { outcome: 'retry', error: cut(this.message), ...(this.delayMs === undefined ? {} : { delay_ms: this.delayMs }) };
  }
}

class Fatal extends Outcome {
  constructor(error) {
    super(String(error instanceof Error ? error.message : error));
  }

  fields() {
    return { outcome: 'fatal', error: cut(this.message) };
  }
}

class Snooze extends Outcome {
  constructor(delayMs, reason) {
    super(reason || 'snoozed');
    this.delayMs = milliseconds('delayMs', delayMs);
    this.reason = reason;
  }

  fields() {
    return { outcome: 'snooze', delay_ms: this.delayMs, ...(this.reason === undefined ? {} : { reason: cut(this.reason) }) };
  }
}

class Drop extends Outcome {
  constructor(reason) {
    super(String(reason));
  }

  fields() {
    return { outcome: 'drop', reason: cut(this.message) };
  }
}

/** The error first, because dead letters are grouped by it, and then where it was thrown. */
function described(error) {
  if (!(error instanceof Error)) return cut(`thrown: ${typeof error === 'string' ? error : safely(error)}`);
  let head = 'Error';
  let frames = [];
  try {
    head = cut(`${error.name}: ${error.message}`, MAX_ERROR_BYTES / 2);
    frames = String(error.stack).split('\n').filter((line) => /^\s+at /.test(line) && !line.includes('node:') && !line.includes(__filename));
  } catch {
    // An error whose own getters throw.
  }
  return cut([head, ...frames].join('\n'));
}

function safely(value) {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return Object.prototype.toString.call(value);
  }
}

// ---- Jobs and handlers ----

const current = new AsyncLocalStorage();

/** Returns the job that this code runs for, if it runs in a handler. */
function currentJob() {
  return current.getStore();
}

/** The attempt that a handler runs. */
class Job {
  #channel;
  #abort = new AbortController();
  #deadline;

  constructor(message, channel) {
    this.message = message;
    this.ref = message.ref;
    this.id = message.id;
    this.type = message.job_type;
    this.queue = message.queue;
    this.attempt = message.attempt;
    this.maxAttempts = message.max_attempts;
    this.headers = message.headers || {};
    this.encoding = message.encoding;
    this.createdMs = message.created_ms;
    this.fence = message.fence;
    this.step = message.step;
    this.traceparent = message.traceparent;
    this.redelivered = message.redelivered === true;
    this.payload = message.payload_base64 === undefined ? message.payload : Buffer.from(message.payload_base64, 'base64');
    this.#channel = channel;
    this.#deadline = message.timeout_ms === undefined ? undefined : performance.now() + message.timeout_ms;
  }

  /** Aborted when the attempt should end; its reason says why. Give it to fetch and the like. */
  get signal() {
    return this.#abort.signal;
  }

  /** Why the attempt should end: cancelled, timeout, shutdown or lost; undefined if it should not. */
  get cancelled() {
    return this.#abort.signal.aborted ? this.#abort.signal.reason.reason : undefined;
  }

  get remainingMs() {
    return this.#deadline === undefined ? undefined : Math.max(0, this.#deadline - performance.now());
  }

  progress(percent, message) {
    const line = { type: 'progress', ref: this.ref };
    if (percent !== undefined && percent !== null) {
      if (!Number.isFinite(percent)) throw new RangeError(`the progress is ${percent}`);
      line.percent = Math.min(100, Math.max(0, percent));
    }
    if (message !== undefined) line.message = cut(message, MAX_LOG_BYTES);
    this.#channel?.send(line);
  }

  log(message, fields, level = 'info') {
    if (!['debug', 'info', 'warn', 'error'].includes(level)) throw new TypeError(`level is debug, info, warn or error, not ${level}`);
    const line = { type: 'log', ref: this.ref, level, message: cut(message, MAX_LOG_BYTES) };
    if (fields) {
      line.fields = {};
      for (const [name, value] of Object.entries(fields)) {
        try {
          line.fields[cut(name)] = JSON.parse(encode(value));
        } catch {
          // Half of a surrogate pair would be nonsense to the worker, and end the program.
          line.fields[cut(name)] = cut(String(value), MAX_LOG_BYTES);
        }
      }
    }
    this.#channel?.send(line);
  }

  /** For the worker's loop alone. */
  _cancel(reason) {
    this.#abort.abort(Object.assign(new Error(`the attempt was interrupted: ${reason}`), { name: 'AbortError', reason }));
  }
}

/** A job for the tests of a handler. */
function testJob(type, payload, options = {}) {
  const { maxAttempts = 5, headers = {}, id = 'test', queue = 'default', attempt = 1 } = options;
  return new Job({ job_type: type, payload, id, queue, attempt, max_attempts: maxAttempts, headers, encoding: 'json' });
}

// ---- The two pipes ----

let channel;

/** Opens the same pipe once more; Node has no dup. */
function reopened(fd, flags) {
  return fs.openSync(`/proc/self/fd/${fd}`, flags);
}

/** Puts something else into the place of a descriptor: the lowest number that is free is that of the one just closed. */
function replaced(fd, path, flags) {
  fs.closeSync(fd);
  let opened;
  try {
    opened = fs.openSync(path, flags);
  } catch {
    opened = fs.openSync('/dev/null', flags);
  }
  if (opened !== fd) throw new Error(`the descriptor ${fd} was taken by something else`);
}

class Channel {
  constructor() {
    try {
      this.input = reopened(0, 'r');
      this.output = reopened(1, 'w');
    } catch (error) {
      throw new Error('standard input and output must be pipes, as those of a worker are', { cause: error });
    }
    replaced(0, '/dev/null', 'r');
    // Whatever is printed from now on, here or by a program that is started, goes to standard error.
    replaced(1, '/proc/self/fd/2', fs.constants.O_WRONLY | fs.constants.O_APPEND);
    // Standard error that is a socket cannot be opened once more.
    Object.defineProperty(process, 'stdout', { configurable: true, enumerable: true, get: () => process.stderr });
    delete process.env.STREAMFLEET_POOL;
    delete process.env.STREAMFLEET_PROTOCOL;
    this.chunks = [];
  }

  send(message) {
    this.write(Buffer.from(JSON.stringify(message) + '\n'));
  }

  write(data) {
    for (let at = 0; at < data.length; ) at += fs.writeSync(this.output, data, at);
  }

  /** Calls `take` with each message, and `end` at the end of the input. */
  listen(take, end) {
    const socket = new net.Socket({ fd: this.input, readable: true, writable: false });
    socket.on('data', (data) => {
      let from = 0;
      for (let to = data.indexOf(10); to >= 0; to = data.indexOf(10, from)) {
        const line = Buffer.concat([...this.chunks, data.subarray(from, to)]);
        this.chunks = [];
        from = to + 1;
        if (line.length > 0) take(JSON.parse(line.toString()));
      }
      if (from < data.length) this.chunks.push(data.subarray(from));
    });
    // A line without its end was cut off with the worker, and is dropped.
    socket.on('end', end);
    socket.on('error', end);
  }
}

function claim() {
  channel ??= new Channel();
  return channel;
}

// ---- The worker's side ----

let producer;

/** Sets the producer of `handler.enqueue(…)`. */
function use(one) {
  producer = one;
}

class Worker {
  #handlers = new Map();
  #middleware = [];
  #running = new Map();
  #channel;
  #maxJobs = Infinity;
  #started = 0;
  #stopping = false;
  #ended = false;
  #left = false;

  constructor() {
    for (const name of ['job', 'middleware', 'run']) this[name] = this[name].bind(this);
  }

  /** Registers a handler. The options are the defaults of its `enqueue`. */
  job(type, options, handler) {
    if (typeof options === 'function') [options, handler] = [{}, options];
    if (typeof handler !== 'function') throw new TypeError(`the handler of ${type} is not a function`);
    if (this.#handlers.has(type)) throw new Error(`${type} has two handlers`);
    const registered = (job) => handler(job);
    registered.type = type;
    registered.enqueue = (payload, more = {}) => {
      const { producer: own, ...rest } = more;
      const by = own || producer;
      if (!by) throw new Error('no producer: call use(new Producer(client)) first, or give a producer');
      return by.enqueue(type, payload, { ...options, ...rest });
    };
    this.#handlers.set(type, handler);
    return registered;
  }

  /** Registers `(job, next) => …`; the first that was registered is the outermost. */
  middleware(one) {
    this.#middleware.push(one);
    return one;
  }

  /** Takes jobs until the worker wants no more, and then exits. */
  run({ inflight = Infinity, maxJobs = Infinity } = {}) {
    if (this.#channel) return;
    if (this.#handlers.size === 0) throw new Error('no handler is registered');
    if (!(inflight >= 1) || !(maxJobs >= 1)) throw new RangeError('inflight and maxJobs are at least 1');
    if (!channel && process.stdin.isTTY) {
      console.error('This program takes jobs from a streamfleet worker: name it as the command of a pool.');
      process.exit(2);
    }
    this.#channel = claim();
    this.#maxJobs = maxJobs;
    process.on('SIGTERM', () => {
      this.#stopping = true;
      // Lines that have arrived already are read, and answered, first.
      setImmediate(() => this.#check());
    });
    this.#channel.listen(
      (message) => this.#take(message, inflight),
      () => {
        this.#ended = true;
        this.#check();
      },
    );
  }

  get #isOver() {
    return this.#stopping || this.#started >= this.#maxJobs;
  }

  #take(message, inflight) {
    if (message.type === 'hello') {
      const types = [...this.#handlers.keys()].sort();
      const wanted = Math.min(inflight, message.inflight || 1);
      this.#send({ type: 'ready', protocol: PROTOCOL, types, inflight: wanted, sdk: `streamfleet-node ${VERSION}` });
      if (message.protocol !== PROTOCOL) {
        console.error(`the worker speaks protocol ${message.protocol}, this program ${PROTOCOL}`);
        process.exit(1);
      }
    } else if (message.type === 'cancel') {
      this.#running.get(message.ref)?._cancel(message.reason || 'cancelled');
    } else if (message.type === 'job' && this.#isOver) {
      const later = new Snooze(LATER_MS, 'the program is stopping');
      this.#send({ type: 'result', ref: message.ref, ...later.fields() });
    } else if (message.type === 'job') {
      this.#started += 1;
      const job = new Job(message, this.#channel);
      this.#running.set(job.ref, job);
      this.#attempt(job);
    }
  }

  #send(message) {
    try {
      this.#channel.send(message);
    } catch (error) {
      // The worker is gone, and it takes its programs with it.
      if (error.code === 'EPIPE') process.exit(1);
      throw error;
    }
  }

  async #attempt(job) {
    let outcome;
    try {
      const returned = await current.run(job, () => this.#call(job));
      outcome = returned instanceof Outcome ? returned : new Done(returned);
    } catch (error) {
      if (error instanceof Outcome) outcome = error;
      else if (job.cancelled) outcome = new Retry(`the attempt was interrupted: ${job.cancelled}`);
      else outcome = new Retry(described(error));
    }
    this.#answer(job, outcome);
    this.#running.delete(job.ref);
    this.#check();
  }

  async #call(job) {
    const handler = this.#handlers.get(job.type);
    if (!handler) return new Retry(`this program has no handler for ${job.type}; it serves ${[...this.#handlers.keys()].join(', ')}`);
    const from = (nth) => async () => (nth < this.#middleware.length ? this.#middleware[nth](job, from(nth + 1)) : handler(job));
    return from(0)();
  }

  #answer(job, outcome) {
    let line;
    try {
      line = Buffer.from(encode({ type: 'result', ref: job.ref, ...outcome.fields() }) + '\n');
      if (line.length > MAX_LINE_BYTES) throw new RangeError(`it has ${line.length} bytes; the most is ${MAX_LINE_BYTES}`);
    } catch (error) {
      if (!(outcome instanceof Done)) {
        // Half of a surrogate pair in an error.
        this.#send({ type: 'result', ref: job.ref, ...outcome.fields() });
        return;
      }
      // Another attempt would do the work again, and return the same.
      const fatal = new Fatal(`the handler's result cannot be sent as JSON: ${error.message}`);
      this.#send({ type: 'result', ref: job.ref, ...fatal.fields() });
      return;
    }
    try {
      this.#channel.write(line);
    } catch (error) {
      if (error.code === 'EPIPE') process.exit(1);
      throw error;
    }
  }

  #check() {
    if (this.#left || this.#running.size > 0 || !(this.#isOver || this.#ended)) return;
    this.#left = true;
    // What is not answered was not started.
    this.#send({ type: 'bye' });
    process.exit(0);
  }
}

// ---- Producers ----

const TYPE = /^[a-z0-9][a-z0-9._-]{0,127}$/;
const QUEUE = /^[a-z0-9][a-z0-9_-]{0,63}$/;
const ENTRY = /^[0-9]+-[0-9]+(-high|-low)?$/;
const ID = /^[^\s\u0000-\u001f\u007f-\u009f]+$/u;
const YEAR_10000_MS = 253402300800000;
const MAX_PAYLOAD_BYTES = 8 * 1024 * 1024;
const OPTIONS = new Set([
  'queue', 'lane', 'priority', 'delayMs', 'runAt', 'expiresAt', 'id', 'headers', 'maxAttempts', 'timeoutMs', 'tracking', 'onSuccess',
  'onFailure', 'then', 'traceparent', 'encoding', 'unique',
]);

function matched(name, pattern, value) {
  if (typeof value !== 'string' || !pattern.test(value)) throw new TypeError(`${name} does not match ${pattern}: ${safely(value)}`);
  return value;
}

function whole(name, value, least, most) {
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new RangeError(`${name} is a whole number from ${least} to ${most}, not ${safely(value)}`);
  }
  return String(value);
}

function instant(name, value) {
  const ms = value instanceof Date ? value.getTime() : milliseconds(name, value);
  // Seconds since 1970 would lie in January of that year.
  if (!(ms >= 1e10 && ms < YEAR_10000_MS)) throw new RangeError(`${name} is a Date or milliseconds since 1970, like Date.now()`);
  return String(Math.round(ms));
}

function checkedId(id) {
  if (typeof id !== 'string' || !ID.test(id) || Buffer.byteLength(id) > 128) {
    throw new TypeError(`id is 1 to 128 bytes without white space and control characters: ${safely(id)}`);
  }
  return id;
}

function laneOf(lane, priority) {
  if (priority !== undefined) {
    if (lane !== undefined) throw new TypeError('give a lane or a priority, not both');
    whole('priority', priority, 1, 10);
    return priority >= 8 ? 'high' : priority >= 4 ? 'normal' : 'low';
  }
  if (![undefined, 'high', 'normal', 'low'].includes(lane)) throw new TypeError(`lane is high, normal or low, not ${safely(lane)}`);
  return lane || 'normal';
}

/** A job before it is sent; everything is checked here, so that nothing malformed reaches Redis. */
class Submission {
  constructor(type, payload, options = {}) {
    for (const name of Object.keys(options)) if (!OPTIONS.has(name)) throw new TypeError(`there is no option ${name}`);
    if (options.unique !== undefined) {
      throw new TypeError('a unique key needs a script of the fleet: use `streamfleet enqueue --unique`, or the Rust producer');
    }
    this.queue = options.queue === undefined ? undefined : matched('queue', QUEUE, options.queue);
    this.lane = laneOf(options.lane, options.priority);
    // node-redis refuses numbers, so everything is a text or a Buffer.
    this.fields = ['type', matched('type', TYPE, type)];
    this.#payload(payload, options.encoding);
    if (options.id !== undefined) {
      if (ENTRY.test(options.id)) throw new TypeError(`an id of your own must not look like that of a stream entry: ${options.id}`);
      this.fields.push('id', checkedId(options.id));
    }
    this.id = options.id;
    if (options.delayMs !== undefined) this.fields.push('delay_ms', String(milliseconds('delayMs', options.delayMs)));
    if (options.runAt !== undefined) this.fields.push('run_at_ms', instant('runAt', options.runAt));
    if (options.expiresAt !== undefined) this.fields.push('expires_at_ms', instant('expiresAt', options.expiresAt));
    if (options.maxAttempts !== undefined) this.fields.push('max_attempts', whole('maxAttempts', options.maxAttempts, 1, 4294967295));
    if (options.timeoutMs !== undefined) this.fields.push('timeout_ms', whole('timeoutMs', options.timeoutMs, 1, 604800000));
    if (options.tracking !== undefined) this.fields.push('tracking', matched('tracking', /^(all|failures|none)$/, options.tracking));
    if (options.onSuccess !== undefined) this.fields.push('on_success', matched('onSuccess', TYPE, options.onSuccess));
    if (options.onFailure !== undefined) this.fields.push('on_failure', matched('onFailure', TYPE, options.onFailure));
    if (options.then !== undefined && options.then.length > 0) this.fields.push('then', Submission.#then(options.then));
    if (options.traceparent !== undefined) this.fields.push('traceparent', String(options.traceparent));
    for (const [name, value] of Object.entries(options.headers || {})) this.#header(name, value);
    if (this.fields.length > 2000) throw new RangeError(`a job has at most 1000 fields, not ${this.fields.length / 2}`);
    this.size = this.fields.reduce((sum, field) => sum + Buffer.byteLength(field), 0);
  }

  #payload(payload, encoding) {
    const isBytes = payload instanceof Uint8Array;
    const name = encoding || (isBytes ? 'raw' : 'json');
    if (!['json', 'msgpack', 'raw'].includes(name)) throw new TypeError(`encoding is json, msgpack or raw, not ${name}`);
    if (!isBytes && name !== 'json') throw new TypeError(`a payload with the encoding ${name} is given as a Buffer`);
    const data = isBytes ? Buffer.from(payload) : encode(payload);
    const size = Buffer.byteLength(data);
    if (size > MAX_PAYLOAD_BYTES) throw new RangeError(`the payload has ${size} bytes; the most is ${MAX_PAYLOAD_BYTES}: store it elsewhere`);
    this.fields.push('payload', data);
    if (name !== 'json') this.fields.push('encoding', name);
  }

  #header(name, value) {
    if (typeof value !== 'string') throw new TypeError(`the header ${name} is a text, not a ${typeof value}`);
    if (name === '' || Buffer.byteLength(name) > 128 || Buffer.byteLength(value) > 8192) {
      throw new RangeError(`the header ${name} is too large: a name has 1 to 128 bytes, a value at most 8192`);
    }
    this.fields.push(`h.${name}`, value);
  }

  static #then(jobs) {
    const list = jobs.map(({ type, payload, onFailure, ...other }) => {
      const [unknown] = Object.keys(other);
      if (unknown) throw new TypeError(`a job in then has type, payload and onFailure, but not ${unknown}`);
      matched('the type of a job in then', TYPE, type);
      return { type, payload, ...(onFailure === undefined ? {} : { on_failure: matched('onFailure', TYPE, onFailure) }) };
    });
    const text = encode(list);
    if (list.length > 64 || Buffer.byteLength(text) > 65536) throw new RangeError('then has at most 64 jobs and 65536 bytes');
    return text;
  }
}

/** Some jobs of a bulk submission were not accepted, or nobody knows whether they were. */
class BulkError extends Error {
  constructor(ids, errors) {
    const failed = errors.filter((error) => error !== undefined);
    super(`${failed.length} of ${errors.length} jobs were not confirmed: ${failed[0].message}`);
    this.name = 'BulkError';
    this.ids = ids;
    this.errors = errors;
  }
}

/** The job did not end in time. It still runs, or waits. */
class NotEnded extends Error {
  constructor(id, state) {
    super(`the job ${id} has not ended; its state is ${state || 'not known'}`);
    this.name = 'NotEnded';
    this.id = id;
    this.state = state;
  }
}

/** The job was known and is no longer: it left no record. */
class Gone extends Error {
  constructor(id) {
    super(`the job ${id} is no longer known; it left no record`);
    this.name = 'Gone';
  }
}

/** The job is dead or cancelled, so it has no result. */
class JobFailed extends Error {
  constructor(status) {
    super(`the job ${status.id} is ${status.state}: ${status.error || 'no error was recorded'}`);
    this.name = 'JobFailed';
    this.status = status;
  }
}

const RECORD = ['state', 'type', 'created_ms', 'result', 'error', 'progress', 'note'];

/** What a job's record says. */
class Status {
  constructor(id, values) {
    const text = (value) => (value === null || value === undefined ? undefined : String(value));
    const [state, type, created, result, error, progress, note] = values.map(text);
    Object.assign(this, { id, state, type, note, result });
    this.createdMs = created === undefined ? undefined : Number(created);
    this.progress = progress === undefined ? undefined : Number(progress);
    this.error = state === 'done' ? undefined : error;
  }

  get ended() {
    return ['done', 'dead', 'cancelled'].includes(this.state);
  }

  /** Returns the result: JSON, or a Buffer; undefined if there is none, or none yet. */
  value() {
    if (this.state === 'dead' || this.state === 'cancelled') throw new JobFailed(this);
    if (this.state !== 'done' || this.result === undefined) return undefined;
    let value;
    try {
      value = JSON.parse(this.result);
    } catch {
      return this.result;
    }
    const isBytes = value !== null && typeof value === 'object' && Object.keys(value).length === 2 && value.encoding === 'base64';
    return isBytes && typeof value.data === 'string' ? Buffer.from(value.data, 'base64') : value;
  }
}

/** Returns a function that sends a command whose second word is its key. */
function sender(client) {
  if (typeof client?.call === 'function') {
    const prefix = client.options?.keyPrefix || client.options?.redisOptions?.keyPrefix;
    if (prefix) {
      throw new TypeError(`ioredis puts its keyPrefix ${safely(prefix)} before every key, also with call(): give a client without one, such as client.duplicate({ keyPrefix: '' })`);
    }
    return (command) => client.call(...command);
  }
  if (typeof client?.sendCommand !== 'function') throw new TypeError('the client is neither one of ioredis nor one of node-redis');
  // The signature of a cluster differs.
  if (client.masters !== undefined) return (command) => client.sendCommand(String(command[1]), command[0] !== 'XADD', command);
  return (command) => client.sendCommand(command);
}

/** Submits jobs with an ioredis or node-redis client of yours. */
class Producer {
  #send;

  constructor(client, { queue = 'default', namespace = 'sf' } = {}) {
    this.queue = matched('queue', QUEUE, queue);
    this.namespace = namespace;
    this.#send = sender(client);
  }

  /** Submits a job and returns its id. */
  async enqueue(type, payload, options = {}) {
    return this.send(new Submission(type, payload, options));
  }

  async send(submission) {
    const lane = submission.lane === 'normal' ? 'jobs' : `jobs:${submission.lane}`;
    const entry = String(await this.#send(['XADD', this.#key(submission.queue, lane), '*', ...submission.fields]));
    if (submission.id !== undefined) return submission.id;
    return submission.lane === 'normal' ? entry : `${entry}-${submission.lane}`;
  }

  /** Submits many jobs in few round trips, and returns their ids in the same order. */
  async enqueueMany(submissions) {
    const [ids, errors] = [[], []];
    let [chunk, size] = [[], 0];
    const flush = async () => {
      // Both clients write commands that do not wait for each other in one piece.
      for (const { value, reason } of await Promise.allSettled(chunk.map((each) => this.send(each)))) {
        ids.push(value);
        errors.push(reason);
      }
      [chunk, size] = [[], 0];
    };
    for (const submission of submissions) {
      if (chunk.length >= 500 || (chunk.length > 0 && size + submission.size > 4 * 1024 * 1024)) await flush();
      chunk.push(submission);
      size += submission.size;
    }
    await flush();
    if (errors.some((error) => error !== undefined)) throw new BulkError(ids, errors);
    return ids;
  }

  /** Reads the job's record; undefined if it has none (yet). */
  async status(id, { queue } = {}) {
    const values = await this.#send(['HMGET', this.#key(queue, `job:${checkedId(id)}`), ...RECORD]);
    return values[0] === null || values[0] === undefined ? undefined : new Status(id, values);
  }

  async result(id, options = {}) {
    return (await this.status(id, options))?.value();
  }

  /** Waits for the end of a job that leaves a record. */
  async wait(id, { timeoutMs = Infinity, queue } = {}) {
    const until = performance.now() + timeoutMs;
    let [pause, state, missing] = [5, undefined, undefined];
    for (;;) {
      const status = await this.status(id, { queue });
      if (status?.ended) return status;
      const now = performance.now();
      if (status) [state, missing] = [status.state, undefined];
      else if (state !== undefined && now - (missing ??= now) > 5000) throw new Gone(id);
      if (now >= until) throw new NotEnded(id, state);
      await sleep(Math.min(pause, until - now));
      pause = Math.min(pause * 1.5, 250);
    }
  }

  #key(queue, name) {
    return `${this.namespace}:{${queue === undefined ? this.queue : matched('queue', QUEUE, queue)}}:${name}`;
  }
}

const { job, middleware, run } = new Worker();

module.exports = {
  BulkError, Done, Drop, Fatal, Gone, JobFailed, NotEnded, Outcome, Producer, Retry, Snooze, Status, Submission, Worker, currentJob, job,
  middleware, run, testJob, use, _claim: claim,
};
