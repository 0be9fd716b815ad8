/// <reference types="node" />
import { EventEmitter } from 'node:events';

/** Types of jobs and their payloads: `interface Jobs { 'mail.send': { to: string } }`. */
export type JobTypes = Record<string, any>;
type Named<Jobs> = Extract<keyof Jobs, string>;

/** Milliseconds, or a text such as '500ms', '30s', '5m', '2h', '1h30m' or '7d'. */
export type Length = number | string;
/** A Date, or milliseconds since 1970 like those of Date.now(). */
export type Instant = Date | number;
export type Lane = 'high' | 'normal' | 'low';
export type Encoding = 'json' | 'msgpack' | 'raw';
/** The last three are final. Before that, a record may lag behind what `streamfleet status` finds. */
export type State = 'waiting' | 'scheduled' | 'running' | 'retrying' | 'done' | 'dead' | 'cancelled';

/** The fields of the wire contract that a plain XADD may have. */
export interface JobOptions {
  /** The queue, in place of the producer's. */
  queue?: string;
  lane?: Lane;
  /** 1 to 10, in place of a lane: 8 to 10 is high, 4 to 7 normal, 1 to 3 low. */
  priority?: number;
  /** The job does not start until this long after its submission. */
  delay?: Length;
  /** The job does not start before this instant. */
  runAt?: Instant;
  /** No attempt starts at or after this instant. */
  expiresAt?: Instant;
  /** An id of your own, which the handler gets as an idempotency key. XADD does not compare ids. */
  id?: string;
  headers?: Record<string, string | number | bigint | boolean>;
  /** After how many failures the job becomes a dead letter. */
  maxAttempts?: number;
  /** How long one attempt may run. */
  timeout?: Length;
  /** `all`: the job leaves a record, and its result, even if it never fails. */
  tracking?: 'all' | 'failures' | 'none';
  /** The type of a job that is submitted when this one succeeds. */
  onSuccess?: string;
  /** The type of a job that is submitted when this one dies. */
  onFailure?: string;
  /** Jobs that follow one after the other. */
  then?: {
    type: string;
    payload?: unknown;
    onFailure?: string;
    /** The queue that it goes to, and with it those after it; otherwise that of the job before it. */
    queue?: string;
  }[];
  /** The batch that this job belongs to, which `Http.batch` or `Cli.batch` has opened. */
  batch?: string;
  /** The W3C trace context. By default, that of the active span of OpenTelemetry, or of the job whose handler submits this one. */
  traceparent?: string;
  /** What belongs to `traceparent`. It travels as the header `tracestate`. */
  tracestate?: string;
  /** How a payload that is given as bytes is encoded; by default raw. */
  encoding?: Encoding;
}

/** A job of enqueueMany. */
export type Submission<Jobs = JobTypes> = {
  [Type in Named<Jobs>]: { type: Type; payload?: Jobs[Type] } & JobOptions;
}[Named<Jobs>];

type Argument = string | Buffer;

/** ioredis (Redis or Cluster), and what looks like it. */
export interface IoredisLike {
  call(command: string, ...args: any[]): Promise<unknown>;
  pipeline(...args: any[]): any;
}

/** node-redis 4 or later: a client, a pool, a cluster or a sentinel. */
export interface NodeRedisLike {
  sendCommand(...args: any[]): Promise<unknown>;
}

/** Sends a command of any other client. */
export type Send = (args: Argument[]) => Promise<unknown>;

/** Submits jobs and looks them up, with a client of yours. */
export class Producer<Jobs = JobTypes> {
  /**
   * @param options.queue the queue of jobs that name none; by default `default`
   * @param options.namespace `redis.namespace` of the fleet; by default `sf`
   * @param options.codecs compresses, encrypts or stores the payloads of all jobs apart
   */
  constructor(client: IoredisLike | NodeRedisLike | Send, options?: { queue?: string; namespace?: string; codecs?: Codecs });
  /** Submits a job and returns its id. Once the promise is fulfilled, the job is accepted. */
  enqueue<Type extends Named<Jobs>>(type: Type, payload?: Jobs[Type], options?: JobOptions): Promise<string>;
  /** Submits many jobs in few round trips and returns their ids in the same order. They are no transaction. */
  enqueueMany(jobs: Iterable<Submission<Jobs>>): Promise<string[]>;
  /** Tells the relay of the outbox that rows were committed, so that it does not wait until it looks again. Nothing depends on it. */
  wakeOutbox(): Promise<void>;
  /** Returns the command that submits a job, for a MULTI of yours. A payload that has to be stored apart is refused. */
  command<Type extends Named<Jobs>>(type: Type, payload?: Jobs[Type], options?: JobOptions): Argument[];
  /** Reads a job's record. Null: it left none, it has none before its first attempt, or it never existed. */
  status(id: string, options?: { queue?: string }): Promise<Status | null>;
  /** Returns the result of a job that is done, and undefined if there is none yet. Throws JobFailed if there will be none. */
  result<Result = any>(id: string, options?: { queue?: string }): Promise<Result | undefined>;
  /** Waits for the end of a job that leaves a record (tracking 'all', or an id of its own). Throws NotEnded, or Gone. */
  wait(id: string, options?: { timeout?: Length; queue?: string; signal?: AbortSignal }): Promise<Status>;
}

/** Keys by their names. The first one encrypts; all decrypt, so that keys can be rotated. */
export class Keys {
  /** @param keys name → 32 bytes */
  constructor(keys: Record<string, Uint8Array> | Iterable<readonly [string, Uint8Array]>);
  /** Reads `name:key` items that white space or commas separate, each key in base64; a line that begins with # is a comment. */
  static fromFile(file: string): Keys;
  /** Reads the same items from a variable of the environment. */
  static fromEnv(name: string): Keys;
  /** The name of the key that encrypts. */
  get first(): string;
  get(name: string): Buffer | undefined;
}

/** Keeps payloads apart from Redis, by the SHA-256 of their bytes. */
export interface ClaimStore {
  /** Stores bytes under their hash. Bytes that are there already get the time of now, so that deletion by age is safe. */
  put(sha256: string, bytes: Buffer): Promise<void>;
  /** Reads the bytes of a hash; undefined if there are none. Of more than `most` bytes, it may return any that are too many. */
  get(sha256: string, most: number): Promise<Buffer | undefined>;
}

/** A folder, which all producers and handlers share. */
export class DirectoryClaims implements ClaimStore {
  constructor(folder: string);
  put(sha256: string, bytes: Buffer): Promise<void>;
  get(sha256: string, most: number): Promise<Buffer | undefined>;
}

/** An `S3` of @aws-sdk/client-s3. */
export interface S3Like {
  putObject(input: any): Promise<unknown>;
  getObject(input: any): Promise<any>;
}

/** A bucket of S3, or of a store that is compatible. */
export class S3Claims implements ClaimStore {
  constructor(client: S3Like, bucket: string, options?: { prefix?: string });
  put(sha256: string, bytes: Buffer): Promise<void>;
  get(sha256: string, most: number): Promise<Buffer | undefined>;
}

/** A payload cannot be encoded or decoded. A job is tried again then by the policy of its type. */
export class CodecError extends Error {}

/** What is done to payloads: they are compressed, then encrypted, then stored apart, as far as this says so. */
export class Codecs {
  /**
   * @param options.keys encrypts every payload with the first key
   * @param options.compress compresses payloads of more than `compressAbove` bytes (1 KiB), if that makes them smaller
   * @param options.claims where payloads of more than `claimAbove` bytes (256 KiB) are stored
   * @param options.maxBytes the most bytes that a payload may have, stored apart or decompressed (64 MiB)
   */
  constructor(options?: { keys?: Keys; compress?: boolean; claims?: ClaimStore; compressAbove?: number; claimAbove?: number; maxBytes?: number });
  /** A job with an encoded payload, as an object for what has no option `codecs`: Http, Cli and outbox. */
  job(type: string, payload?: unknown, options?: JobOptions): Promise<{ type: string; payload?: any } & JobOptions>;
  /** Resolves to the header, and to the bytes to send with the encoding raw. Without a header, nothing was done. */
  encodePayload(type: string, encoding: Encoding, payload: Buffer): Promise<[string | undefined, Buffer]>;
  /** The same at once, for payloads that are not stored apart. */
  encodePayloadNow(type: string, encoding: Encoding, payload: Buffer): [string | undefined, Buffer];
  /** Resolves to the encoding of the plain payload, and to its bytes. */
  decodePayload(type: string, header: string, payload: Buffer, encoding?: string): Promise<[Encoding, Buffer]>;
}

/** What a job's record says. */
export class Status {
  private constructor();
  readonly id: string;
  readonly state: State;
  readonly type?: string;
  readonly createdMs?: number;
  /** The last error, or why the job was cancelled; none after a success. */
  readonly error?: string;
  /** The progress that its handler reported, 0 to 100. */
  readonly progress?: number;
  /** The text of the progress. */
  readonly note?: string;
  /** The result of a success: a JSON value, or a Buffer if the handler returned bytes. */
  readonly result?: any;
  /** Whether it is done, dead or cancelled. */
  get ended(): boolean;
  /** Returns the result, and throws JobFailed if the job is dead or cancelled. */
  value<Result = any>(): Result | undefined;
}

/** A submission that breaks the wire contract. Nothing was sent. */
export class InvalidSubmission extends TypeError {
  /** The fields that are wrong, if the HTTP API says so, such as `/delay`. */
  readonly fields?: string[];
}
/** Some jobs of enqueueMany were not accepted, or nobody knows whether they were. */
export class BulkError extends Error {
  /** The id of each accepted job, in the order of the submissions, and null for the others. */
  readonly ids: (string | null)[];
  /** Why each of the others was not confirmed. After an error of the connection, the job may have been accepted. */
  readonly errors: (Error | null)[];
}
/** The job was not sent, because the connection had failed before. */
export class NotSent extends Error {}
/** The job did not end in time. It still runs, or waits. */
export class NotEnded extends Error {
  readonly id: string;
  readonly state?: State;
}
/** The job was known and is no longer: it left no record. */
export class Gone extends Error {
  readonly id: string;
}
/** The job is dead or cancelled, so it has no result. */
export class JobFailed extends Error {
  readonly status: Status;
}

/** Options that only `Http` and `Cli` offer, because they need a script of the fleet (docs/submit.md). */
export interface CliOptions extends Omit<JobOptions, 'tracking' | 'batch'> {
  tracking?: 'all';
  /** While a job with this key waits or runs, others with it are not accepted. */
  unique?: string;
  /** How long the job holds its unique key: `waiting`, `running` (the default), or a length such as '30s'. */
  uniqueScope?: Length;
  /** What happens to this job if another one holds the key; by default `reject`. */
  uniqueMode?: 'reject' | 'replace' | 'debounce';
  /** For how long the id is remembered at least; by default 24 hours. */
  idempotentFor?: Length;
  /** `memory`, `replicas:N` or `aof`. */
  durability?: string;
}

/** A job of a batch that `Http` or `Cli` opens. */
export type Member<Jobs = JobTypes> = {
  [Type in Named<Jobs>]: { type: Type; payload?: Jobs[Type] } & Omit<CliOptions, 'idempotentFor' | 'durability'>;
}[Named<Jobs>];

/** What became of a submission by `Http` or `Cli`. */
export interface Accepted {
  /** The job: the new one, or the one that existed. */
  readonly id: string;
  readonly state: State;
  /** False if the id was known, or another job holds the unique key: nothing was submitted. */
  readonly isNew: boolean;
  /** The job that this one replaces. */
  readonly replaced?: string;
  /** Whether the job that holds the key got the new payload and time. */
  readonly isDebounced: boolean;
}

/**
 * Submits jobs by the program `streamfleet enqueue`, which takes some milliseconds. Other users of the machine can see the arguments
 * of programs, which are all options of a job, but not its payload.
 */
export class Cli<Jobs = JobTypes> {
  /**
   * @param options.command the program and its global arguments; by default `['streamfleet']`
   * @param options.queue the queue of jobs that name none; by default `default`
   * @param options.env variables besides those of this process, such as `STREAMFLEET__REDIS__URL`
   * @param options.timeout after how long the program is killed; by default 90 s
   */
  constructor(options?: { command?: readonly string[]; queue?: string; env?: Record<string, string>; timeout?: Length });
  /** Submits a job. Throws InvalidSubmission, Refused or Unconfirmed. */
  enqueue<Type extends Named<Jobs>>(type: Type, payload?: Jobs[Type], options?: CliOptions): Promise<Accepted>;
  /**
   * Opens a batch: submits its members, and when all of them have succeeded, the job `follow`. Returns the ids of the members:
   * `<name>.<number>`, unless they have others. After an error, call it again with the same members in the same order: none is accepted
   * twice. Throws InvalidSubmission, Refused or Unconfirmed.
   */
  batch(name: string, members: Iterable<Member<Jobs>>, follow: Member<Jobs>): Promise<string[]>;
}
/** A job of `Http.enqueueMany`. */
export type HttpSubmission<Jobs = JobTypes> = {
  [Type in Named<Jobs>]: { type: Type; payload?: Jobs[Type] } & CliOptions;
}[Named<Jobs>];

/**
 * Submits jobs by the HTTP API of `streamfleet console`, with a token. It repeats requests that may have failed on the way, and no job is
 * submitted twice by that. All jobs leave a record.
 */
export class Http<Jobs = JobTypes> {
  /**
   * @param options.url the address of the console, such as `http://127.0.0.1:9470`
   * @param options.token what `streamfleet console token` has printed, or a function that returns it
   * @param options.queue the queue of jobs that name none; by default `default`
   * @param options.timeout how long one request may take; by default 10 s
   * @param options.retries how often a request is repeated; by default 4 times
   */
  constructor(options: { url: string; token: string | (() => string | Promise<string>); queue?: string; timeout?: Length; retries?: number });
  /** Submits a job. Throws InvalidSubmission, Refused or Unconfirmed. */
  enqueue<Type extends Named<Jobs>>(type: Type, payload?: Jobs[Type], options?: CliOptions): Promise<Accepted>;
  /** Submits many jobs in few requests and returns their ids in the same order. They are no transaction. Throws BulkError. */
  enqueueMany(jobs: Iterable<HttpSubmission<Jobs>>): Promise<string[]>;
  /**
   * Opens a batch: submits its members, and when all of them have succeeded, the job `follow`. Returns the ids of the members:
   * `<name>.<number>`, unless they have others. After an error, call it again with the same members in the same order: none is accepted
   * twice. Throws InvalidSubmission, Refused or Unconfirmed.
   */
  batch(name: string, members: Iterable<Member<Jobs>>, follow: Member<Jobs>): Promise<string[]>;
  /** Looks a job up. Null: it does not exist, or has left no record. */
  status(id: string, options?: { queue?: string; signal?: AbortSignal }): Promise<Status | null>;
  /** Returns the result of a job that is done, and undefined if there is none yet. Throws JobFailed if there will be none. */
  result<Result = any>(id: string, options?: { queue?: string; signal?: AbortSignal }): Promise<Result | undefined>;
  /** Waits for the end of a job, also if it is not known yet. Throws NotEnded, or Gone. */
  wait(id: string, options?: { timeout?: Length; queue?: string; signal?: AbortSignal }): Promise<Status>;
}

/**
 * The job was not accepted, and is not to blame: the queue is full, Redis or the console cannot be reached, the token may not submit it, the
 * configuration is wrong, or the program could not be started.
 */
export class Refused extends Error {
  /** The status of the HTTP API, if it has answered. */
  readonly status?: number;
}
/** Nobody knows whether the job was accepted, or its durability is not confirmed. If it has an id, send it again. */
export class Unconfirmed extends Error {
  /** The status of the HTTP API, if it has answered. */
  readonly status?: number;
}

/** A job that a fake producer has got. */
export interface FakeJob<Payload = any> {
  readonly id: string;
  readonly type: string;
  /** As its handler gets it. */
  readonly payload: Payload;
  readonly queue: string;
  readonly lane: Lane;
  readonly headers: Record<string, string>;
  /** The options as they were given. */
  readonly options: CliOptions & { batch?: string; tracking?: string };
  readonly state: State;
  /** With a worker: how often the handler was called, and how the last attempt ended. */
  readonly attempts: number;
  readonly outcome?: Outcome;
  readonly error?: string;
}

/** What a payload must have: an object needs the named properties, an array the same length, and a function decides by itself. */
export type Expected = unknown;

/** What the fakes have in common. With a worker, they run a handler at once, without pauses and delays, and then the jobs that follow. */
export interface Fake<Jobs = JobTypes> {
  /** The jobs, in the order of their submission. */
  readonly jobs: FakeJob[];
  enqueueMany(jobs: Iterable<HttpSubmission<Jobs>>): Promise<string[]>;
  batch(name: string, members: Iterable<Member<Jobs>>, follow: Member<Jobs>): Promise<string[]>;
  status(id: string, options?: object): Promise<Status | null>;
  result<Result = any>(id: string, options?: object): Promise<Result | undefined>;
  /** Throws NotEnded at once if the job has not ended: in a test, nothing happens later. */
  wait(id: string, options?: object): Promise<Status>;
  /** Returns the jobs of a type whose payload has what is expected. */
  enqueued(type?: Named<Jobs>, expected?: Expected): FakeJob[];
  /** Throws unless there are this many such jobs: one, if `times` does not say otherwise. */
  assertEnqueued(type: Named<Jobs>, expected?: Expected, options?: { times?: number }): void;
  assertNotEnqueued(type: Named<Jobs>, expected?: Expected): void;
  assertNothingEnqueued(): void;
  /** Forgets the jobs. */
  clear(): void;
}
/** Stands for a Producer in tests: it checks jobs as that does, and notes them. */
export class FakeProducer<Jobs = JobTypes> {
  constructor(options?: { worker?: Worker<any>; queue?: string });
  enqueue<Type extends Named<Jobs>>(type: Type, payload?: Jobs[Type], options?: JobOptions): Promise<string>;
}
export interface FakeProducer<Jobs = JobTypes> extends Fake<Jobs> {}
/** Stands for `Http` and `Cli`: an id is accepted once, and a unique key keeps others out until its job has ended. */
export class FakeHttp<Jobs = JobTypes> {
  constructor(options?: { worker?: Worker<any>; queue?: string });
  enqueue<Type extends Named<Jobs>>(type: Type, payload?: Jobs[Type], options?: CliOptions): Promise<Accepted>;
}
export interface FakeHttp<Jobs = JobTypes> extends Fake<Jobs> {}

/** `failed`: a promise of the job was rejected, and nobody handled it. The others come from the worker. */
export type CancelReason = 'cancelled' | 'timeout' | 'shutdown' | 'lost' | 'failed';
export type Level = 'debug' | 'info' | 'warn' | 'error';

/** The attempt that a handler runs. Tests create one with a type and a payload. */
export class Job<Payload = any> {
  constructor(
    type: string,
    payload?: Payload,
    options?: {
      id?: string;
      queue?: string;
      attempt?: number;
      maxAttempts?: number;
      timeout?: number;
      createdMs?: number;
      headers?: Record<string, string>;
      encoding?: Encoding;
      results?: Record<string, unknown>;
      step?: string;
      fence?: string;
      message?: Record<string, unknown>;
    },
  );
  /** The same in all attempts: use it as an idempotency key. */
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  /** Which attempt this is, from 1. */
  readonly attempt: number;
  readonly maxAttempts?: number;
  /** When the job was accepted, in milliseconds since 1970, by the clock of Redis. */
  readonly createdMs?: number;
  readonly headers: Record<string, string>;
  /** A JSON or MessagePack value, or a Buffer if the payload is something else. Whole numbers beyond 2^53 are BigInts. */
  readonly payload: Payload;
  readonly encoding: Encoding;
  /** The name of the step, if the job has steps. */
  readonly step?: string;
  /** What the steps returned that this one names in `after`, by their names: JSON values, or Buffers. One that a person decided to be done may have none. */
  readonly results: Record<string, any>;
  /** Greater for every later attempt of the job. */
  readonly fence?: string;
  /** The trace of the attempt, or of what submitted the job. With OpenTelemetry, spans of the handler belong to it. */
  readonly traceparent?: string;
  readonly tracestate?: string;
  readonly ref?: string;
  /** The whole message of the worker, with fields that this version does not know. */
  readonly message: Record<string, any>;
  /** How many milliseconds are left of the attempt's timeout. */
  get remaining(): number;
  /** Fires when the attempt should end: give it to fetch and the like. */
  get signal(): AbortSignal;
  /** Why the attempt should end; undefined if it should not. */
  get cancelled(): CancelReason | undefined;
  /** Fires the signal, as the worker does; for tests of handlers. */
  cancel(reason?: CancelReason): void;
  /** Reports progress: 0 to 100, and a short text. */
  progress(percent?: number, message?: string): void;
  /** Logs a line that the job's record keeps. The promise is fulfilled once the worker has room for more. */
  log(message: string, level?: Level, fields?: Record<string, unknown>): Promise<void>;
}

/** The reason of a job's signal. */
export class Cancelled extends Error {
  readonly reason: CancelReason;
}

/** How an attempt ended. A handler returns one, or throws it. */
export abstract class Outcome extends Error {}
/** The job is done. The result is a JSON value, or bytes. */
export class Done extends Outcome {
  constructor(result?: unknown);
  readonly result: unknown;
}
/** The attempt failed. The next one is due by the type's policy, and no sooner than after the delay. */
export class Retry extends Outcome {
  constructor(error: unknown, options?: { delay?: Length });
  readonly delayMs?: number;
  /** What was thrown, if it is an object. */
  readonly cause?: unknown;
}
/**
 * The attempt failed, and nobody knows whether the work was done: an answer was lost. A `once` step becomes unknown, and a person
 * decides. Every other job is tried again, as after Retry.
 */
export class Unknown extends Outcome {
  constructor(error: unknown);
  /** What was thrown, if it is an object. */
  readonly cause?: unknown;
}
/** The job can never succeed: it becomes a dead letter at once. */
export class Fatal extends Outcome {
  constructor(error: unknown);
  /** What was thrown, if it is an object. */
  readonly cause?: unknown;
}
/** Not now: the job runs again after this delay, and no attempt is spent. */
export class Snooze extends Outcome {
  constructor(delay: Length, reason?: string);
  readonly delayMs: number;
}
/** The job is no longer wanted: it ends as cancelled, with the reason, and is not a failure. */
export class Drop extends Outcome {
  constructor(reason: string);
}
export function done(result?: unknown): Done;
export function retry(error: unknown, options?: { delay?: Length }): Retry;
export function unknown(error: unknown): Unknown;
export function fatal(error: unknown): Fatal;
export function snooze(delay: Length, reason?: string): Snooze;
export function drop(reason: string): Drop;

/** What a handler returns is an outcome, or else the result of a success. What it throws is a retry, unless it is an outcome. */
export type Handler<Payload = any> = (job: Job<Payload>) => unknown;
/** Runs around a handler; it returns what `next` returns, or an outcome of its own. */
export type Middleware = (job: Job, next: () => Promise<unknown>) => unknown;

/** A class of errors, or the `name` or `code` that errors have, such as 'ECONNREFUSED'. */
export type ErrorKind = (abstract new (...args: any[]) => Error) | string;
/** A dead letter at once; another attempt; the same as Unknown; no longer wanted; or another attempt, no sooner than after this length. */
export type ErrorRule = 'fatal' | 'retry' | 'unknown' | 'drop' | Length;

/** What happens to the jobs of this program. What a listener throws is reported on standard error, and changes nothing. */
export interface WorkerEvents extends EventEmitter {
  /** An attempt begins. */
  on(event: 'before', listener: (job: Job) => unknown): this;
  /**
   * An attempt has ended: `after` without a failure; `retry` if it has failed and the job runs again; `failed` if it has failed for
   * good. The answer is fixed, and written after the listeners.
   */
  on(event: 'after' | 'retry' | 'failed', listener: (job: Job, outcome: Outcome) => unknown): this;
  once(event: 'before', listener: (job: Job) => unknown): this;
  once(event: 'after' | 'retry' | 'failed', listener: (job: Job, outcome: Outcome) => unknown): this;
}

/** What a type needs in the configuration of the worker, which `STREAMFLEET_DESCRIBE=1 node worker.js` prints. */
export interface TypeOptions {
  maxAttempts?: number;
  /** As the configuration has it, such as `{ fixed: '1s' }`. */
  backoff?: object;
  /** From 0 to 1. */
  jitter?: number;
  timeout?: Length;
  /** How many of them run at once in one worker. */
  concurrency?: number;
  tracking?: 'all' | 'failures' | 'none';
  onSuccess?: string;
  onFailure?: string;
}

/** Runs handlers for a streamfleet worker, which starts this program and gives it jobs. */
export class Worker<Jobs = JobTypes> {
  /** Handles the jobs of a type. */
  on<Type extends Named<Jobs>>(type: Type, handler: Handler<Jobs[Type]>, options?: TypeOptions): this;
  /** The same as `on`. */
  handle<Type extends Named<Jobs>>(type: Type, handler: Handler<Jobs[Type]>, options?: TypeOptions): this;
  /** The line that says which types this program handles, and what belongs into the configuration of the worker for each. */
  describe(): string;
  /** Runs the handler of a job, with middleware and rules, and returns the outcome that the fleet would get. For tests. */
  outcome(job: Job<any>): Promise<Outcome>;
  /** Adds a function around all handlers. The first one is the outermost. */
  use(middleware: Middleware): this;
  /** Decodes payloads before handlers, middleware and listeners see them. */
  codecs(codecs: Codecs): this;
  /**
   * Says what follows errors of these classes, names or codes, if a handler throws them: `worker.errors([[RangeError, 'fatal']])`, or by
   * names and codes only, `worker.errors({ ECONNREFUSED: '30s' })`. The nearest one decides: the code of the error, those of its causes,
   * its name, its class, the class above that. The configuration of the worker decides about errors without a rule.
   */
  errors(rules: Iterable<readonly [ErrorKind, ErrorRule]> | { readonly [nameOrCode: string]: ErrorRule }): this;
  readonly events: WorkerEvents;
  /**
   * Takes jobs until the worker wants no more. After that, the program has two seconds to close its connections.
   *
   * @param options.inflight the most jobs at once, if that is fewer than the pool allows
   * @param options.maxJobs ends the program after this many jobs; the worker starts another one
   */
  run(options?: { inflight?: number; maxJobs?: number }): Promise<void>;
}

/** A DatabaseSync of node:sqlite, or a Database of better-sqlite3. */
export interface SqliteLike {
  prepare(sql: string): any;
  exec(sql: string): any;
}
/** A connection of mysql2, with promises or not, and no pool. */
export interface MysqlLike {
  query(...args: any[]): any;
  beginTransaction(...args: any[]): any;
}
/** A Client of pg, and no pool. */
export interface PgLike {
  query(...args: any[]): any;
  escapeIdentifier(text: string): string;
}
/** A connection to a database that has the tables of the fleet. */
export type Database = SqliteLike | MysqlLike | PgLike;

/**
 * Runs `work` in a transaction of its own, commits, and returns what `work` returned, as JSON has it. If an attempt of this job has done so
 * before, it returns the result of that time and does not run `work`. If `work` throws, it rolls back. The note that the work is done is a
 * row of the table `streamfleet_effects`. All attempts and replays of a job share it.
 *
 * If the connection breaks during the commit, nobody knows whether the work is done. Let the error pass: the job is retried, and gets the
 * result if it is.
 *
 * @param db the connection on which `work` does all that must happen once. No transaction may be open on it, and no other job may use it
 * @param work what it returns must fit into 64 KiB of JSON
 * @param options.step which work of the job this is, if a handler has several; up to 64 characters, together with the name of the job's own
 *   step and a slash
 * @throws Superseded if a later attempt has done the work: this one should end
 */
export function once<Db extends Database, Result>(
  db: Db,
  job: Job<any>,
  work: (db: Db) => Result | PromiseLike<Result>,
  options?: { step?: string },
): Promise<Result>;
/** A later attempt of the job has done the work, so this one is outdated: nothing that it reports counts any more. */
export class Superseded extends Error {}

/** `autocommit`: the connection may be in no transaction, and each statement is then committed on its own. */
export interface OutboxOptions {
  autocommit?: boolean;
}
/**
 * Submits jobs within a transaction of the application: a job is a row of the table `streamfleet_outbox`, which the fleet submits after
 * the commit. If the transaction is rolled back, there is no job. Wait for each call before you commit.
 */
export const outbox: {
  /** Adds a job, and returns its id: that of the job, or a random one. A delay counts from this call. */
  add(db: Database, type: string, payload?: unknown, options?: JobOptions & OutboxOptions): Promise<string>;
  /** Adds many jobs in few statements, and returns their ids in the same order. If it fails, roll back: some may have been added. */
  addAll(db: Database, jobs: Iterable<Submission>, options?: OutboxOptions): Promise<string[]>;
};

export const version: string;
