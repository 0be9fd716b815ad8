/** The module, its decorators, and what its queues need. */
'use strict';

const { Inject, Injectable, Module, Scope } = require('@nestjs/common');
const { Queue, doors } = require('./queue.js');

const PROCESSOR = 'streamfleet:processor';
const EVENTS = 'streamfleet:events';
/** The events of a worker of BullMQ. Only the first four happen in a program of a pool. */
const NAMES = ['active', 'completed', 'failed', 'progress', 'closed', 'closing', 'drained', 'error', 'lockRenewalFailed', 'paused', 'ready', 'resumed', 'stalled'];

const getQueueToken = (name = 'default') => `StreamfleetQueue_${name}`;
const sharedToken = (key = 'default') => `STREAMFLEET(${key})`;

/** Injects the queue with this name. */
const InjectQueue = (name) => Inject(getQueueToken(name));

/** Marks a class whose `process` handles the jobs of a queue: a name, or options; and options of the worker. */
function Processor(queueOrOptions, workerOptions = {}) {
  const options = typeof queueOrOptions === 'string' ? { name: queueOrOptions } : (queueOrOptions ?? {});
  const { name = 'default', scope = Scope.DEFAULT } = options;
  return (target) => {
    Reflect.defineMetadata(PROCESSOR, { name, options: workerOptions }, target);
    Injectable({ scope })(target);
  };
}

/** Marks a method that is called when a job is active, completed or failed, or has made progress. */
function OnWorkerEvent(event) {
  if (!NAMES.includes(event)) throw new TypeError(`a worker has no event '${event}': it has ${NAMES.join(', ')}`);
  return (target, method, descriptor) => {
    const known = Reflect.getMetadata(EVENTS, target.constructor) ?? [];
    Reflect.defineMetadata(EVENTS, [...known, { event, method }], target.constructor);
    return descriptor;
  };
}

/** The base of processors. */
class WorkerHost {
  #worker;

  /** What an application asks of its worker: `await this.worker.rateLimit(ms); throw new RateLimitError()`. */
  get worker() {
    this.#worker ??= {
      limitMs: 0,
      rateLimit: async (ms) => {
        this.#worker.limitMs = ms;
      },
      on: () => this.#worker,
    };
    return this.#worker;
  }
}

/** What all queues of one configuration share. */
class Shared {
  constructor(options) {
    this.options = options;
    Object.assign(this, doors(options));
  }

  onApplicationShutdown() {
    this.close?.();
  }
}

class StreamfleetModule {
  /** Says how jobs are submitted: `forRoot(options)`, or `forRoot(key, options)` if there are several. */
  static forRoot(...args) {
    const [key, options] = args.length > 1 ? args : [undefined, args[0]];
    return global(key, { useFactory: () => new Shared(options) });
  }

  static forRootAsync(...args) {
    const [key, { imports = [], ...rest }] = args.length > 1 ? args : [undefined, args[0]];
    return global(key, fromAsync(rest, 'createSharedConfiguration', (options) => new Shared(options)), imports);
  }

  static registerQueue(...queues) {
    const providers = queues.map(({ name = 'default', configKey, ...options }) => ({
      provide: getQueueToken(name),
      inject: [sharedToken(configKey)],
      useFactory: (shared) => queueOf(name, shared, options),
    }));
    return { module: StreamfleetModule, providers, exports: providers.map(({ provide }) => provide) };
  }

  static registerQueueAsync(...queues) {
    const providers = queues.map(({ name = 'default', configKey, imports: _imports, ...rest }) => {
      const { inject, useFactory } = fromAsync(rest, 'createRegisterQueueOptions', (options) => options);
      const make = async (shared, ...deps) => queueOf(name, shared, await useFactory(...deps));
      return { provide: getQueueToken(name), inject: [sharedToken(configKey), ...inject], useFactory: make };
    });
    const imports = queues.flatMap((each) => each.imports ?? []);
    return { module: StreamfleetModule, imports, providers, exports: providers.map(({ provide }) => provide) };
  }
}
Module({})(StreamfleetModule);

function global(key, provider, imports = []) {
  const shared = { provide: sharedToken(key), ...provider };
  return { module: StreamfleetModule, global: true, imports, providers: [shared], exports: [shared] };
}

/** A provider from `useFactory`, `useClass` or `useExisting`. */
function fromAsync({ useFactory, inject = [], useClass, useExisting }, method, make) {
  if (useFactory !== undefined) return { inject, useFactory: async (...deps) => make(await useFactory(...deps)) };
  const factory = useExisting ?? useClass;
  if (factory === undefined) return { inject, useFactory: async () => make({}) };
  if (useExisting === undefined) return { inject, useFactory: async (...deps) => make(await new factory(...deps)[method]()) };
  return { inject: [factory], useFactory: async (made) => make(await made[method]()) };
}

function queueOf(name, { options, ...shared }, own) {
  const { queue, defaultJobOptions } = { ...options, ...own };
  const merged = { ...options.defaultJobOptions, ...defaultJobOptions };
  // A queue with a connection of its own, as BullMQ allows.
  const made = own?.connection === undefined && own?.http === undefined ? shared : doors({ ...options, ...own });
  return new Queue(name, { ...made, close: made === shared ? undefined : made.close, queue, defaultJobOptions: merged });
}

module.exports = { EVENTS, InjectQueue, OnWorkerEvent, PROCESSOR, Processor, StreamfleetModule, WorkerHost, getQueueToken };
