/// <reference types="node" />

/** A JSON value, or bytes. `undefined` fields are left out, as JSON.stringify does. */
export type Payload = unknown;
export type Lane = 'high' | 'normal' | 'low';
export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** How an attempt ended. A handler returns one, or throws it. */
export abstract class Outcome extends Error {}

/** The job is done. The result is a JSON value, or bytes. */
export class Done extends Outcome {
  constructor(result?: unknown);
  readonly result: unknown;
}

/** The attempt failed. Without a delay, the next one is due by the type's policy. */
export class Retry extends Outcome {
  constructor(error: unknown, options?: { delayMs?: number });
  readonly delayMs?: number;
}

/** The job can never succeed: it becomes a dead letter at once. */
export class Fatal extends Outcome {
  constructor(error: unknown);
}

/** Not now: the job runs again after the delay, and no attempt is spent. */
export class Snooze extends Outcome {
  constructor(delayMs: number, reason?: string);
  readonly delayMs: number;
  readonly reason?: string;
}

/** The job is no longer wanted: it ends as cancelled, with the reason, and is not a failure. */
export class Drop extends Outcome {
  constructor(reason: string);
}

/** The attempt that a handler runs. */
export interface Job<P = any> {
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly headers: Record<string, string>;
  /** The JSON or MessagePack value, or a Buffer if the payload is something else. */
  readonly payload: P;
  readonly encoding: string;
  readonly createdMs: number;
  /** Greater for every later attempt of the job. */
  readonly fence?: string;
  readonly step?: string;
  readonly traceparent?: string;
  /** Whether an earlier attempt failed or lost its worker. */
  readonly redelivered: boolean;
  /** The whole message of the worker, with fields that this version does not know. */
  readonly message: Record<string, unknown>;
  /** Aborted when the attempt should end. */
  readonly signal: AbortSignal;
  /** Why the attempt should end: `cancelled`, `timeout`, `shutdown` or `lost`. */
  readonly cancelled?: string;
  /** How many milliseconds are left of the attempt's timeout. */
  readonly remainingMs?: number;
  /** Reports progress: 0 to 100, and a short text. */
  progress(percent?: number, message?: string): void;
  /** Logs a line that the job's record keeps. */
  log(message: string, fields?: Record<string, unknown>, level?: LogLevel): void;
}

export type HandlerFunction<P = any> = (job: Job<P>) => unknown;

/** A handler with its type: still callable, and able to submit jobs for itself. */
export interface Handler<P = any> {
  (job: Job<P>): unknown;
  readonly type: string;
  /** Submits a job of this type with the producer, or with that of `use`. */
  enqueue(payload?: P, options?: SubmissionOptions & { producer?: Producer }): Promise<string>;
}

export type Middleware = (job: Job, next: () => Promise<unknown>) => unknown;

export interface RunOptions {
  /** The most jobs at once, if that is fewer than the pool allows. */
  inflight?: number;
  /** Ends the program after this many jobs; the worker starts another. */
  maxJobs?: number;
}

/** Handlers and middleware. Most programs need only the functions of the module, which belong to one worker. */
export class Worker {
  job<P = any>(type: string, handler: HandlerFunction<P>): Handler<P>;
  job<P = any>(type: string, options: SubmissionOptions, handler: HandlerFunction<P>): Handler<P>;
  middleware(one: Middleware): Middleware;
  run(options?: RunOptions): void;
}

/** Registers a handler. The options are the defaults of its `enqueue`. */
export function job<P = any>(type: string, handler: HandlerFunction<P>): Handler<P>;
export function job<P = any>(type: string, options: SubmissionOptions, handler: HandlerFunction<P>): Handler<P>;
/** Registers middleware; the first that was registered is the outermost. */
export function middleware(one: Middleware): Middleware;
/** Takes jobs until the worker wants no more, and then exits. */
export function run(options?: RunOptions): void;
/** Returns the job that this code runs for, if it runs in a handler. */
export function currentJob(): Job | undefined;
/** A job for the tests of a handler. */
export function testJob<P>(
  type: string,
  payload: P,
  options?: { id?: string; queue?: string; attempt?: number; maxAttempts?: number; headers?: Record<string, string> },
): Job<P>;
/** Sets the producer of `handler.enqueue(…)`. */
export function use(producer: Producer): void;

/** The fields of docs/wire.md that a producer may set. Times are in milliseconds. */
export interface SubmissionOptions {
  queue?: string;
  lane?: Lane;
  /** 1 to 10, which stands for a lane. */
  priority?: number;
  delayMs?: number;
  /** A Date, or milliseconds since 1970. */
  runAt?: Date | number;
  expiresAt?: Date | number;
  id?: string;
  headers?: Record<string, string>;
  maxAttempts?: number;
  timeoutMs?: number;
  tracking?: 'all' | 'failures' | 'none';
  onSuccess?: string;
  onFailure?: string;
  then?: ReadonlyArray<{ type: string; payload?: Payload; onFailure?: string }>;
  traceparent?: string;
  /** For a payload that is given as bytes; default: raw. */
  encoding?: 'json' | 'msgpack' | 'raw';
}

/** A job before it is sent. */
export class Submission {
  constructor(type: string, payload?: Payload, options?: SubmissionOptions);
}

/** What a job's record says. */
export class Status {
  readonly id: string;
  /** `done`, `dead` and `cancelled` are final. Before that, the state may lag behind that of `streamfleet status`. */
  readonly state: string;
  readonly type?: string;
  readonly createdMs?: number;
  /** The last error, or why it was cancelled; undefined after a success. */
  readonly error?: string;
  readonly progress?: number;
  readonly note?: string;
  /** The result as JSON. */
  readonly result?: string;
  readonly ended: boolean;
  /** Returns the result: a JSON value, or a Buffer. Throws JobFailed if the job is dead or cancelled. */
  value(): any;
}

/** An ioredis client or cluster without keyPrefix. */
export interface IoRedisLike {
  call(...args: any[]): Promise<unknown>;
}

/** A node-redis client or cluster. */
export interface NodeRedisLike {
  sendCommand(...args: any[]): Promise<unknown>;
}

/** Submits jobs with an ioredis or node-redis client of yours. */
export class Producer {
  constructor(client: IoRedisLike | NodeRedisLike, options?: { queue?: string; namespace?: string });
  /** Submits a job and returns its id. */
  enqueue(type: string, payload?: Payload, options?: SubmissionOptions): Promise<string>;
  send(submission: Submission): Promise<string>;
  /** Submits many jobs in few round trips; throws BulkError if some were not confirmed. */
  enqueueMany(submissions: Iterable<Submission>): Promise<string[]>;
  /** Reads the job's record; undefined if it has none (yet). */
  status(id: string, options?: { queue?: string }): Promise<Status | undefined>;
  /** Returns the result of a job that is done; throws JobFailed if it is dead or cancelled. */
  result(id: string, options?: { queue?: string }): Promise<any>;
  /** Waits for the end of a job that leaves a record; throws NotEnded or Gone. */
  wait(id: string, options?: { timeoutMs?: number; queue?: string }): Promise<Status>;
}

export class BulkError extends Error {
  readonly ids: Array<string | undefined>;
  readonly errors: Array<Error | undefined>;
}
export class NotEnded extends Error {
  readonly id: string;
  readonly state?: string;
}
export class Gone extends Error {}
export class JobFailed extends Error {
  readonly status: Status;
}
