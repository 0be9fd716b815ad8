/**
 * Producers for tests of applications: they check jobs as the real ones do, send nothing, and note what they got. With a worker, they run its
 * handlers at once.
 */
'use strict';

const { inspect } = require('node:util');

/** Jobs that follow each other in one test; a circle would never end. */
const MOST_FOLLOWERS = 100;
const STATES = { done: 'done', fatal: 'dead', snooze: 'scheduled', drop: 'cancelled' };
const ENDS = ['done', 'dead', 'cancelled'];

const TAKE = Symbol('take');
const SAME = Symbol('same');

/** What this needs of the package around it. */
module.exports = ({ FIELDS, Gone, Job, NotEnded, Status, Worker, ...own }) => {
  const { asBytes, bytesOr, fromJson, fieldsOf, queued, resultJson, submission, submissionOf, traced } = own;

  class FakeProducer {
    #worker;
    #queue;
    #running = 0;
    /** The jobs, in the order of their submission. */
    jobs = [];

    constructor({ worker, queue = 'default' } = {}) {
      if (worker !== undefined && !(worker instanceof Worker)) throw new TypeError(`worker must be a Worker, not ${inspect(worker, { depth: 0 })}`);
      this.#worker = worker;
      this.#queue = queued(queue);
    }

    async enqueue(type, payload, options) {
      return (await this[TAKE](type, payload, options)).noted.id;
    }

    async enqueueMany(jobs) {
      const ids = [];
      for (const [index, job] of Array.from(jobs).entries()) {
        submissionOf(withoutHttp(job), `jobs[${index}]`);
        const { type, payload, ...options } = job;
        ids.push((await this[TAKE](type, payload, options)).noted.id);
      }
      return ids;
    }

    async status(id) {
      const job = this.#find(id);
      return job === undefined ? null : new Status(id, { state: job.state, type: job.type, error: job.error, result: job.result });
    }

    async result(id) {
      return (await this.status(id))?.value();
    }

    /** The end of a job, without waiting: in a test, nothing happens later. */
    async wait(id) {
      const status = await this.status(id);
      if (status === null) throw new Gone(id);
      if (!status.ended) throw new NotEnded(id, status.state);
      return status;
    }

    /** Opens a batch: with a worker, its members run at once, and then the job that follows. */
    async batch(name, members, follow) {
      const ids = [];
      for (const [index, { type, payload, ...options }] of Array.from(members).entries()) {
        ids.push((await this[TAKE](type, payload, { id: `${name}.${index}`, ...options, batch: name })).noted.id);
      }
      const { type, payload, ...options } = follow;
      const isWhole = ids.every((id) => this.#find(id).state === 'done');
      if (isWhole) await this[TAKE](type, payload, options);
      return ids;
    }

    /** Returns the jobs of a type, or all of them. */
    enqueued(type, expected) {
      return this.jobs.filter((job) => (type === undefined || job.type === type) && (expected === undefined || fits(job.payload, expected)));
    }

    /** Says that there are this many jobs of a type whose payload has what is expected: one, unless `times` says otherwise. */
    assertEnqueued(type, expected, { times = 1 } = {}) {
      const found = this.enqueued(type, expected).length;
      if (found === times) return;
      const like = expected === undefined ? '' : ` with ${inspect(expected, { depth: 4, breakLength: Infinity })}`;
      throw failure(`expected ${times} ${type}${like}, but there ${found === 1 ? 'is' : 'are'} ${found}; ${this.#listed()}`, times, found);
    }

    assertNotEnqueued(type, expected) {
      this.assertEnqueued(type, expected, { times: 0 });
    }

    assertNothingEnqueued() {
      if (this.jobs.length > 0) throw failure(`expected no job; ${this.#listed()}`, 0, this.jobs.length);
    }

    /** Forgets the jobs. */
    clear() {
      this.jobs.length = 0;
    }

    /** Notes a job, and runs it if there is a worker. */
    async [TAKE](type, payload, options = {}) {
      const job = submission(type, payload, withoutHttp(traced(options)));
      const same = this[SAME](options);
      if (same !== undefined) return { noted: same, isNew: false };
      const fields = fieldsOf(job);
      const noted = {
        id: job.id ?? `fake-${this.jobs.length + 1}`,
        type,
        payload: asBytes(payload) ?? (fields.has('payload') ? fromJson(String(fields.get('payload'))) : null),
        queue: job.queue ?? this.#queue,
        lane: job.lane,
        headers: Object.fromEntries([...fields].filter(([name]) => name.startsWith('h.')).map(([name, value]) => [name.slice(2), value])),
        options,
        state: fields.has('delay_ms') || fields.has('run_at_ms') ? 'scheduled' : 'waiting',
        attempts: 0,
      };
      this.jobs.push(noted);
      if (this.#worker !== undefined) await this.#run(noted);
      return { noted, isNew: true };
    }

    /** The job that keeps this one out; a plain XADD compares nothing. */
    [SAME]() {
      return undefined;
    }

    #find(id) {
      return this.jobs.find((job) => job.id === id);
    }

    #listed() {
      if (this.jobs.length === 0) return 'nothing was submitted';
      return `submitted were ${this.jobs.map(({ type, payload }) => `${type} ${inspect(payload, { depth: 4, breakLength: Infinity })}`).join(', ')}`;
    }

    /** Runs a job as the fleet does, without pauses, and then the jobs that follow it. */
    async #run(noted) {
      this.#running += 1;
      if (this.#running > MOST_FOLLOWERS) throw new Error(`${MOST_FOLLOWERS} jobs have submitted each other: do they ever end?`);
      try {
        const most = noted.options.maxAttempts ?? 1;
        do {
          noted.attempts += 1;
          noted.state = 'running';
          await this.#attempt(noted, most);
        } while (noted.state === 'retrying');
        if (noted.state === 'done' || noted.state === 'dead') await this.#follow(noted);
      } finally {
        this.#running -= 1;
      }
    }

    async #attempt(noted, most) {
      const { id, type, payload, queue, headers, options, attempts } = noted;
      const encoding = asBytes(payload) === undefined ? 'json' : (options.encoding ?? 'raw');
      const message = { traceparent: options.traceparent };
      const job = new Job(type, payload, { id, queue, headers, attempt: attempts, maxAttempts: most, encoding, message, fence: `${attempts}-0` });
      noted.outcome = await this.#worker.outcome(job);
      const { outcome, error, reason, result, result_base64: base64 } = noted.outcome[FIELDS]();
      noted.state = STATES[outcome] ?? (attempts < most ? 'retrying' : 'dead');
      noted.error = error ?? reason;
      if (base64 !== undefined) noted.result = JSON.stringify({ encoding: 'base64', data: base64 });
      else if (result !== undefined) noted.result = resultJson(result);
    }

    async #follow({ id, type, state, result, error, outcome, queue, options }) {
      const value = result === undefined ? null : fromJson(result);
      const reason = outcome[FIELDS]().outcome === 'fatal' ? 'fatal' : 'exhausted';
      const facts = state === 'done' ? { id, type, state, result: bytesOr(value) } : { id, type, state, reason, error };
      const name = state === 'done' ? options.onSuccess : options.onFailure;
      if (name !== undefined) await this[TAKE](name, facts, { queue });
      const [next, ...then] = state === 'done' ? (options.then ?? []) : [];
      if (next !== undefined) await this[TAKE](next.type, next.payload ?? facts, { queue: next.queue ?? queue, onFailure: next.onFailure, ...(then.length > 0 && { then }) });
    }
  }

  /** Stands for `Http` and `Cli`: an id is accepted once, and a unique key keeps others out until its job has ended. */
  class FakeHttp extends FakeProducer {
    async enqueue(type, payload, options) {
      const { noted, isNew } = await this[TAKE](type, payload, options);
      return { id: noted.id, state: noted.state, isNew, replaced: undefined, isDebounced: false };
    }

    [SAME]({ id, unique }) {
      const isHolder = (job) => unique !== undefined && job.options.unique === unique && !ENDS.includes(job.state);
      return this.jobs.find((job) => (id !== undefined && job.id === id) || isHolder(job));
    }
  }

  return { FakeProducer, FakeHttp };
};

/** The options that only `Http` and `Cli` check. */
function withoutHttp(options) {
  if (typeof options !== 'object' || options === null) return options;
  const { idempotentFor: _kept, durability: _stored, ...others } = options;
  return others;
}

/** Returns whether a value has all that is expected: of objects, the named properties; a function decides by itself. */
function fits(value, expected) {
  if (typeof expected === 'function') return expected(value) === true;
  if (typeof expected !== 'object' || expected === null) return Object.is(value, expected);
  if (typeof value !== 'object' || value === null || Array.isArray(value) !== Array.isArray(expected)) return false;
  if (Buffer.isBuffer(expected)) return Buffer.isBuffer(value) && value.equals(expected);
  if (Array.isArray(expected) && value.length !== expected.length) return false;
  return Object.entries(expected).every(([name, each]) => fits(value[name], each));
}

function failure(message, expected, actual) {
  const { AssertionError } = require('node:assert');
  return new AssertionError({ message, expected, actual, operator: 'assertEnqueued' });
}
