/** Queues, jobs and errors, with the names and the meaning that BullMQ gives them. */
'use strict';

const { Cli, FakeHttp, Http, InvalidSubmission, Producer, Snooze } = require('streamfleet');

const HEADERS = { name: 'name', opts: 'opts' };
/** What the fleet calls the states of a job. */
const STATES = { waiting: 'waiting', scheduled: 'delayed', running: 'active', retrying: 'delayed', done: 'completed', dead: 'failed', cancelled: 'failed' };
/** Options that a job carries for its processor; the others are fields of the job. */
const CARRIED = ['attempts', 'backoff', 'priority', 'delay', 'lifo', 'keepLogs', 'stackTraceLimit', 'sizeLimit'];
const CRON = 'recurring jobs are in [cron] of the configuration of the worker (docs/cron.md)';
const FLOW = 'jobs that follow each other are chains and batches of the package streamfleet (docs/callbacks.md)';
const NOT_HERE = { repeat: CRON, parent: FLOW, prevMillis: CRON };
/** Methods of a queue that operators have elsewhere. */
const ELSEWHERE = {
  pause: '`streamfleet pause`',
  resume: '`streamfleet resume`',
  drain: '`streamfleet cancel` or `purge`',
  obliterate: '`streamfleet purge`',
  clean: '`retention` of the queue, in the configuration',
  retryJobs: '`streamfleet dead replay`',
  upsertJobScheduler: '[cron] of the configuration',
  removeJobScheduler: '[cron] of the configuration',
  getJobs: '`streamfleet jobs` or the console',
  getJobCounts: '`streamfleet queues` or the console',
};

/** The error says that another attempt cannot succeed. */
class UnrecoverableError extends Error {
  constructor(message = 'bullmq:unrecoverable') {
    super(message);
    this.name = 'UnrecoverableError';
  }
}

/** Thrown after `job.moveToDelayed`: the job runs again then, and no attempt is used. */
class DelayedError extends Error {
  constructor(message = 'bullmq:movedToDelayed') {
    super(message);
    this.name = 'DelayedError';
  }
}

/** Thrown after `worker.rateLimit`: the job runs again then, and no attempt is used. */
class RateLimitError extends Error {
  constructor(message = 'bullmq:rateLimitExceeded') {
    super(message);
    this.name = 'RateLimitError';
  }
}

/** The type of the jobs of a queue: types are lower case. */
function typeOf(queue) {
  const type = String(queue).toLowerCase().replace(/[^a-z0-9._-]/g, '-').replace(/^[^a-z0-9]+/, '');
  if (type === '' || type.length > 128) throw new TypeError(`the queue '${queue}' makes no type of jobs: its name needs a letter or a digit, and at most 128 characters`);
  return type;
}

/** Returns how long to wait before the next attempt, -1 for no other, and undefined if the type's policy decides alone. */
function backoffOf({ backoff } = {}, failures, error, job, settings) {
  const { type, delay = 0, jitter = 0 } = typeof backoff === 'number' ? { type: 'fixed', delay: backoff } : (backoff ?? {});
  if (type === undefined) return undefined;
  const base = { fixed: delay, exponential: Math.round(2 ** (failures - 1) * delay) }[type];
  if (base !== undefined) return Math.floor(base * (1 - jitter) + Math.random() * base * jitter);
  if (settings?.backoffStrategy === undefined) throw new TypeError(`there is no backoff '${type}': use fixed or exponential, or give the processor settings.backoffStrategy`);
  return settings.backoffStrategy(failures, type, error, job);
}

/** A job, as its producer and its processor know it. */
class Job {
  #queue;
  #attempt;
  #until;

  constructor(queue, name, data, opts = {}, id = undefined, attempt = undefined) {
    this.#queue = queue;
    this.#attempt = attempt;
    this.name = name;
    this.data = data;
    this.opts = opts;
    this.id = id;
    this.attemptsMade = 0;
    this.attemptsStarted = 0;
    this.delay = opts.delay ?? 0;
    this.priority = opts.priority ?? 0;
    this.timestamp = Date.now();
    this.progress = 0;
    this.returnvalue = undefined;
    this.failedReason = undefined;
    this.finishedOn = undefined;
    this.processedOn = undefined;
  }

  get queueName() {
    return this.#queue.name;
  }

  /** The attempt of the package `streamfleet`: its signal, its headers, its fence, the results of earlier steps. */
  get streamfleet() {
    return this.#attempt;
  }

  /** Reports progress: a number from 0 to 100, or anything else as text. */
  async updateProgress(progress) {
    this.progress = progress;
    const isNumber = typeof progress === 'number';
    this.#attempt?.progress(isNumber ? progress : undefined, isNumber ? undefined : JSON.stringify(progress));
    this.#queue.onProgress?.(this, progress);
  }

  /** Logs a line that the job's record keeps. */
  async log(row) {
    await this.#attempt?.log(String(row));
  }

  /** Says when the job runs again, before DelayedError is thrown. */
  async moveToDelayed(timestamp) {
    this.#until = timestamp;
  }

  /** What follows DelayedError. */
  snooze() {
    return new Snooze(Math.max(0, (this.#until ?? Date.now()) - Date.now()), 'DelayedError');
  }

  async getState() {
    return this.#queue.getJobState(this.id);
  }

  async isCompleted() {
    return (await this.getState()) === 'completed';
  }

  async isFailed() {
    return (await this.getState()) === 'failed';
  }

  /** Waits for the end of the job, and returns its result. BullMQ needs its QueueEvents for that, the fleet needs nothing. */
  async waitUntilFinished(_queueEvents, ttl) {
    return this.#queue.resultOf(this.id, ttl);
  }

  toJSON() {
    const { id, name, data, opts, progress, attemptsMade, timestamp, queueName, returnvalue, failedReason } = this;
    return { id, name, data, opts, progress, attemptsMade, timestamp, queueName, returnvalue, failedReason };
  }
}

/** A queue of BullMQ: the jobs of one type. */
class Queue {
  #producer;
  #once;
  #defaults;
  #target;
  #close;

  /** @param options `producer` submits jobs; `once` those that are accepted once; `close` ends what they need */
  constructor(name, { producer, once, defaultJobOptions = {}, queue, close } = {}) {
    this.name = name;
    this.type = typeOf(name);
    this.#producer = producer ?? once;
    this.#once = once;
    this.#defaults = defaultJobOptions;
    this.#target = queue;
    this.#close = close;
    if (this.#producer === undefined) throw new TypeError(`the queue '${name}' needs a connection or http: give one to StreamfleetModule.forRoot`);
  }

  async add(name, data, opts) {
    const merged = { ...this.#defaults, ...opts };
    const { isOnce, ...job } = this.#submission(name, data, merged);
    const { type, payload, ...options } = job;
    const accepted = await (isOnce ? this.#once : this.#producer).enqueue(type, payload, options);
    return new Job(this, name, data, merged, accepted.id ?? accepted);
  }

  async addBulk(jobs) {
    const merged = jobs.map(({ name, data, opts }) => [name, data, { ...this.#defaults, ...opts }]);
    const submissions = merged.map((job) => this.#submission(...job));
    // Those that are accepted once go by another way. The order of the ids stays.
    const ids = new Array(jobs.length);
    for (const isOnce of [false, true]) {
      const some = submissions.flatMap((each, index) => (each.isOnce === isOnce ? [index] : []));
      if (some.length === 0) continue;
      const lines = some.map((index) => withoutMark(submissions[index]));
      const found = await manyBy(isOnce ? this.#once : this.#producer, lines);
      some.forEach((index, nth) => (ids[index] = found[nth]));
    }
    return merged.map(([name, data, opts], index) => new Job(this, name, data, opts, ids[index]));
  }

  /** Returns a job that has a record: its name and data only its processor knows. */
  async getJob(id) {
    const status = await this.#look(id);
    if (status === null) return undefined;
    const job = new Job(this, undefined, undefined, {}, id);
    return Object.assign(job, { progress: status.progress ?? 0, returnvalue: status.result, failedReason: status.error, timestamp: status.createdMs });
  }

  async getJobState(id) {
    return STATES[(await this.#look(id))?.state] ?? 'unknown';
  }

  async resultOf(id, ttl) {
    const reader = this.#reader();
    return (await reader.wait(id, { queue: this.#target, ...(ttl !== undefined && { timeout: ttl }) })).value();
  }

  async close() {
    await this.#close?.();
  }

  #look(id) {
    return this.#reader().status(id, { queue: this.#target });
  }

  #reader() {
    const reader = [this.#producer, this.#once].find((each) => typeof each?.status === 'function');
    if (reader === undefined) throw new TypeError(`to look at jobs of '${this.name}', give StreamfleetModule.forRoot a connection or http`);
    return reader;
  }

  /** A job of the package streamfleet, and whether it must be accepted once. */
  #submission(name, data, opts) {
    if (typeof name !== 'string' || name === '') throw new InvalidSubmission('a job needs a name');
    const other = Object.keys(opts).find((option) => NOT_HERE[option] !== undefined && opts[option] !== undefined);
    if (other !== undefined) throw new InvalidSubmission(`there is no option '${other}' here: ${NOT_HERE[other]}`);
    const { jobId, deduplication, delay = 0, attempts, removeOnComplete, lifo, priority } = opts;
    const isOnce = jobId !== undefined || deduplication !== undefined;
    if (isOnce && this.#once === undefined) {
      throw new InvalidSubmission(`a plain XADD cannot accept ${jobId === undefined ? 'a deduplication' : 'a jobId'} once: give StreamfleetModule.forRoot http or cli, too`);
    }
    const carried = Object.fromEntries(CARRIED.filter((option) => opts[option] !== undefined).map((option) => [option, opts[option]]));
    const job = { type: this.type, payload: data, maxAttempts: Math.max(1, attempts ?? 1), headers: { [HEADERS.name]: name } };
    if (Object.keys(carried).length > 0) job.headers[HEADERS.opts] = JSON.stringify(carried);
    if (this.#target !== undefined) job.queue = this.#target;
    if (delay > 0) job.delay = delay;
    // Without a priority, a job goes before those that have one.
    if (lifo === true) job.lane = 'high';
    else if (priority > 0) job.lane = 'low';
    if (jobId !== undefined) job.id = String(jobId);
    if (deduplication !== undefined) Object.assign(job, uniqueOf(deduplication));
    // BullMQ keeps what has been completed, unless it is told to remove it.
    if (removeOnComplete !== true && !isOnce) job.tracking = 'all';
    return { ...job, isOnce };
  }
}

for (const [method, where] of Object.entries(ELSEWHERE)) {
  Object.defineProperty(Queue.prototype, method, {
    value: async function elsewhere() {
      throw new TypeError(`a queue of the fleet has no ${method}(): see ${where}`);
    },
  });
}

function withoutMark({ isOnce: _mark, ...job }) {
  return job;
}

async function manyBy(door, jobs) {
  if (typeof door.enqueueMany === 'function') return door.enqueueMany(jobs);
  const ids = [];
  for (const { type, payload, ...options } of jobs) ids.push((await door.enqueue(type, payload, options)).id);
  return ids;
}

function uniqueOf({ id, ttl, extend, replace, keepLastIfActive }) {
  if (keepLastIfActive) throw new InvalidSubmission('keepLastIfActive does not exist here: a job that is kept out is not kept');
  const mode = replace ? { uniqueMode: extend ? 'debounce' : 'replace' } : {};
  return { unique: String(id), ...(ttl !== undefined && !replace && { uniqueScope: ttl }), ...mode };
}

/** A queue for tests: it sends nothing, and `fake` has what was added. */
class FakeQueue extends Queue {
  constructor(name, options = {}) {
    const fake = new FakeHttp();
    super(name, { ...options, producer: fake, once: fake });
    this.fake = fake;
  }
}

/** The producers for the options of a module, and what closes them. */
function doors({ connection, http, cli, namespace }) {
  const { client, close } = connection === undefined ? {} : clientOf(connection);
  const once = http === undefined ? (cli === undefined ? undefined : new Cli(cli === true ? {} : cli)) : new Http(http);
  return { producer: client === undefined ? undefined : new Producer(client, { namespace }), once, close };
}

/** A client that is given, or one of ioredis, which connects when it is needed. */
function clientOf(connection) {
  const isClient = typeof connection === 'function' || typeof connection.call === 'function' || typeof connection.sendCommand === 'function';
  if (isClient) return { client: connection };
  const { createRequire } = require('node:module');
  let Redis;
  for (const load of [require, createRequire(`${process.cwd()}/`)]) {
    try {
      Redis ??= load('ioredis');
    } catch (error) {
      if (error.code !== 'MODULE_NOT_FOUND') throw error;
    }
  }
  if (Redis === undefined) throw new TypeError('connection has the options of ioredis, which is not installed: npm install ioredis, or give a client');
  const { url, ...options } = connection;
  const own = { lazyConnect: true, autoResendUnfulfilledCommands: false, ...options, maxRetriesPerRequest: options.maxRetriesPerRequest ?? undefined };
  const client = url === undefined ? new (Redis.default ?? Redis)(own) : new (Redis.default ?? Redis)(url, own);
  return { client, close: () => client.disconnect() };
}

module.exports = { DelayedError, FakeQueue, HEADERS, Job, Queue, RateLimitError, UnrecoverableError, backoffOf, doors, typeOf };
