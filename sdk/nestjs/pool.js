/** The program of a pool: it boots the application once, and runs its processors for the jobs that a worker gives it. */
'use strict';

const { AsyncLocalStorage } = require('node:async_hooks');
const { inspect } = require('node:util');
const { Done, Fatal, Retry, Snooze, Worker } = require('streamfleet');
const { ContextIdFactory, ModuleRef, ModulesContainer, NestFactory } = require('@nestjs/core');
const { EVENTS, PROCESSOR } = require('./module.js');
const { HEADERS, Job, backoffOf, typeOf } = require('./queue.js');

const LEVELS = { log: 'info', error: 'error', warn: 'warn', debug: 'debug', verbose: 'debug', fatal: 'error' };
/** The job for which code runs. */
const CURRENT = new AsyncLocalStorage();

/** The application's logger: what is logged for a job goes into its record, and the rest to standard error. */
class PoolLogger {
  constructor() {
    for (const [method, level] of Object.entries(LEVELS)) {
      this[method] = (message, ...more) => this.#write(level, message, more);
    }
  }

  #write(level, message, more) {
    const context = typeof more.at(-1) === 'string' ? more.at(-1) : undefined;
    const text = typeof message === 'string' ? message : inspect(message);
    const job = CURRENT.getStore();
    // Nest passes the stack of an error before the context.
    const stack = level === 'error' && more.length > 1 && typeof more[0] === 'string' ? `\n${more[0]}` : '';
    if (job === undefined) process.stderr.write(`${level} ${context === undefined ? '' : `[${context}] `}${text}${stack}\n`);
    else void job.log(text + stack, level, context === undefined ? {} : { context });
  }
}

/**
 * Boots the application whose module this is, and runs its processors until the worker wants no more. Then it closes the application, and with it
 * what its shutdown hooks close.
 */
async function runPool(module, { logger = new PoolLogger(), inflight, maxJobs, configure } = {}) {
  const app = await NestFactory.createApplicationContext(module, { logger, abortOnError: false });
  await configure?.(app);
  const worker = new Worker();
  const processors = processorsOf(app);
  if (processors.length === 0) throw new Error(`${module.name} has no provider with @Processor: import the modules that have them`);
  for (const processor of processors) register(worker, app, processor);
  await worker.run({ inflight, maxJobs });
  await app.close();
}

/** The providers with @Processor. */
function processorsOf(app) {
  const found = new Map();
  for (const { providers } of app.get(ModulesContainer).values()) {
    for (const wrapper of providers.values()) {
      const { metatype } = wrapper;
      const processor = typeof metatype === 'function' ? Reflect.getMetadata(PROCESSOR, metatype) : undefined;
      if (processor !== undefined) found.set(metatype, { ...processor, wrapper, metatype, events: Reflect.getMetadata(EVENTS, metatype) ?? [] });
    }
  }
  return [...found.values()];
}

function register(worker, app, processor) {
  const { name, options } = processor;
  const type = typeOf(name);
  const attempts = new WeakMap();
  const methods = (event) => processor.events.filter((each) => each.event === event).map(({ method }) => method);
  const [active, progress, completed, failed] = ['active', 'progress', 'completed', 'failed'].map(methods);
  const tell = (instance, called, ...facts) => Promise.all(called.map((method) => instance[method](...facts)));
  const queue = { name, onProgress: (job, value) => void tell(attempts.get(job.streamfleet).instance, progress, job, value) };
  const handler = async (attempt) => {
    const job = jobOf(queue, attempt);
    const instance = isShared(processor) ? processor.wrapper.instance : await instanceOf(app, processor, job);
    attempts.set(attempt, { job, instance });
    if (active.length > 0) await tell(instance, active, job, 'waiting');
    try {
      return await instance.process(job, attempt.ref, attempt.signal);
    } catch (error) {
      return outcomeOf(error, job, attempt, instance, options.settings);
    }
  };
  // BullMQ runs one job of a processor at a time, unless it is told otherwise, and repeats it at once, unless the job has a backoff.
  const needs = { concurrency: options.concurrency ?? 1, backoff: { fixed: '1ms' }, jitter: 0 };
  worker.on(type, (attempt) => CURRENT.run(attempt, handler, attempt), needs);
  const listen = (event, called, told) => {
    if (called.length === 0) return;
    worker.events.on(event, (attempt, outcome) => {
      const known = attempts.get(attempt);
      return known === undefined ? undefined : CURRENT.run(attempt, told, known, outcome, attempt);
    });
  };
  listen('after', completed, ({ job, instance }, outcome, attempt) => {
    if (!(outcome instanceof Done)) return undefined;
    Object.assign(job, { returnvalue: outcome.result, finishedOn: Date.now(), attemptsMade: attempt.attempt });
    return tell(instance, completed, job, outcome.result, 'active');
  });
  for (const event of ['retry', 'failed']) {
    listen(event, failed, ({ job, instance }, outcome, attempt) => {
      const error = outcome.cause ?? outcome;
      Object.assign(job, { failedReason: error.message, finishedOn: Date.now(), attemptsMade: attempt.attempt });
      return tell(instance, failed, job, error, 'active');
    });
  }
}

function isShared({ wrapper }) {
  return wrapper.isDependencyTreeStatic() && !wrapper.isTransient;
}

/** A processor that depends on the request, or that nobody shares: made for this job alone. */
async function instanceOf(app, { metatype }, job) {
  const context = ContextIdFactory.create();
  const reference = app.get(ModuleRef);
  reference.registerRequestByContextId(job, context);
  return reference.resolve(metatype, context, { strict: false });
}

function jobOf(queue, attempt) {
  const { [HEADERS.name]: name = '__default__', [HEADERS.opts]: opts } = attempt.headers;
  const job = new Job(queue, name, attempt.payload, { attempts: 0, ...(opts !== undefined && JSON.parse(opts)) }, attempt.id, attempt);
  return Object.assign(job, { attemptsMade: attempt.attempt - 1, attemptsStarted: attempt.attempt, timestamp: attempt.createdMs, processedOn: Date.now() });
}

/** What follows an error of a processor: nothing of the application need be a class of this package. */
function outcomeOf(error, job, attempt, instance, settings) {
  if (error?.name === 'UnrecoverableError') return new Fatal(error);
  if (error?.name === 'DelayedError') return job.snooze();
  if (error?.name === 'RateLimitError') return new Snooze(instance.worker?.limitMs ?? 0, 'RateLimitError');
  // The last attempt has failed whatever the backoff, and one that was interrupted says nothing about the job.
  if (attempt.attempt >= attempt.maxAttempts || attempt.cancelled !== undefined) throw error;
  const delay = backoffOf(job.opts, attempt.attempt, error, job, settings);
  if (delay === undefined) throw error;
  return delay < 0 ? new Fatal(error) : new Retry(error, { delay });
}

module.exports = { PoolLogger, runPool };
