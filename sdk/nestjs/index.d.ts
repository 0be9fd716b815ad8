/// <reference types="node" />
import { DynamicModule, INestApplicationContext, LoggerService, ModuleMetadata, Scope, Type } from '@nestjs/common';
import { Accepted, Cli, CliOptions, FakeHttp, Http, Job as Attempt, JobOptions, Length, Producer, Status } from 'streamfleet';

export type BackoffOptions = number | { type: string; delay?: number; jitter?: number };
export interface DeduplicationOptions {
  id: string;
  /** For how long others with this id are kept out; by default until the job has ended. */
  ttl?: number;
  extend?: boolean;
  replace?: boolean;
}

/** The options of a job that BullMQ has, and that have a meaning here. */
export interface JobsOptions {
  /** How often the job is tried; once, if this is not given. */
  attempts?: number;
  backoff?: BackoffOptions;
  /** Milliseconds. */
  delay?: number;
  /** The id, which is accepted once. It needs `http` or `cli`. */
  jobId?: string;
  /** It needs `http` or `cli`. */
  deduplication?: DeduplicationOptions;
  /** The job goes before all others. */
  lifo?: boolean;
  /** From 1, for jobs that come after those without a priority. All of them have one lane. */
  priority?: number;
  /** `true`: a job that succeeds leaves no record. Otherwise, `retention` of the queue says for how long it is kept. */
  removeOnComplete?: boolean | number | object;
  /** The configuration of the worker says for how long dead letters are kept. */
  removeOnFail?: boolean | number | object;
}

/** A job, as its producer and its processor know it. */
export class Job<Data = any, Result = any, Name extends string = string> {
  readonly id?: string;
  readonly name: Name;
  readonly data: Data;
  readonly opts: JobsOptions;
  readonly queueName: string;
  /** How many attempts have ended. */
  readonly attemptsMade: number;
  readonly attemptsStarted: number;
  readonly delay: number;
  readonly priority: number;
  readonly timestamp: number;
  readonly progress: number | object | string | boolean;
  readonly returnvalue: Result;
  readonly failedReason?: string;
  readonly processedOn?: number;
  readonly finishedOn?: number;
  /** The attempt of the package `streamfleet`: its signal, its headers, its fence. In a processor only. */
  readonly streamfleet?: Attempt<Data>;
  updateProgress(progress: number | object | string | boolean): Promise<void>;
  log(row: string): Promise<void>;
  /** Says when the job runs again, before `throw new DelayedError()`. */
  moveToDelayed(timestamp: number, token?: string): Promise<void>;
  getState(): Promise<'waiting' | 'delayed' | 'active' | 'completed' | 'failed' | 'unknown'>;
  isCompleted(): Promise<boolean>;
  isFailed(): Promise<boolean>;
  /** Waits for the end of the job, and returns its result. No QueueEvents are needed. */
  waitUntilFinished(queueEvents?: unknown, ttl?: number): Promise<Result>;
  toJSON(): object;
}

/** What a queue needs of a producer. */
export interface Door {
  enqueue(type: any, payload?: any, options?: any): Promise<string | Accepted>;
  enqueueMany?(jobs: Iterable<any>): Promise<string[]>;
  status?(id: string, options?: { queue?: string }): Promise<Status | null>;
  wait?(id: string, options?: { queue?: string; timeout?: Length }): Promise<Status>;
}

export interface QueueOptions {
  defaultJobOptions?: JobsOptions;
  /** The queue of the fleet; by default `default`. */
  queue?: string;
}

/** The jobs of one type. */
export class Queue<Data = any, Result = any, Name extends string = string> {
  constructor(name: string, options: QueueOptions & { producer?: Door; once?: Door; close?: () => unknown });
  readonly name: string;
  /** The type of its jobs: its name in lower case. */
  readonly type: string;
  add(name: Name, data: Data, options?: JobsOptions): Promise<Job<Data, Result, Name>>;
  addBulk(jobs: { name: Name; data: Data; opts?: JobsOptions }[]): Promise<Job<Data, Result, Name>[]>;
  /** Returns a job that has a record. Its name and its data only its processor knows. */
  getJob(id: string): Promise<Job<Data, Result, Name> | undefined>;
  getJobState(id: string): Promise<'waiting' | 'delayed' | 'active' | 'completed' | 'failed' | 'unknown'>;
  close(): Promise<void>;
}

/** A queue for tests: it sends nothing, and `fake` has what was added. */
export class FakeQueue<Data = any, Result = any, Name extends string = string> extends Queue<Data, Result, Name> {
  constructor(name: string, options?: QueueOptions);
  readonly fake: FakeHttp<any>;
}

/** Another attempt cannot succeed. */
export class UnrecoverableError extends Error {}
/** The job runs again at the time that `job.moveToDelayed` has said. */
export class DelayedError extends Error {
  constructor(message?: string);
}
/** The job runs again after the time that `worker.rateLimit` has said. */
export class RateLimitError extends Error {
  constructor(message?: string);
}

export interface StreamfleetOptions extends QueueOptions {
  /** A client of ioredis or node-redis, or the options of ioredis, also with a `url`. */
  connection?: object;
  /** The HTTP API of `streamfleet console`, for jobs that are accepted once, or for all if there is no connection. */
  http?: ConstructorParameters<typeof Http>[0];
  /** The program `streamfleet enqueue`, for jobs that are accepted once. */
  cli?: true | ConstructorParameters<typeof Cli>[0];
  /** `redis.namespace` of the fleet; by default `sf`. */
  namespace?: string;
}

export interface StreamfleetOptionsFactory {
  createSharedConfiguration(): Promise<StreamfleetOptions> | StreamfleetOptions;
}
export interface AsyncOptions<Options> {
  imports?: NonNullable<ModuleMetadata['imports']>;
  useFactory?: (...args: any[]) => Promise<Options> | Options;
  useClass?: Type<any>;
  useExisting?: Type<any>;
  inject?: any[];
}
export type RegisterQueueOptions = Partial<StreamfleetOptions> & { name?: string; configKey?: string };

export class StreamfleetModule {
  /** Says how jobs are submitted. */
  static forRoot(options: StreamfleetOptions): DynamicModule;
  static forRoot(configKey: string, options: StreamfleetOptions): DynamicModule;
  static forRootAsync(options: AsyncOptions<StreamfleetOptions>): DynamicModule;
  static forRootAsync(configKey: string, options: AsyncOptions<StreamfleetOptions>): DynamicModule;
  /** Provides queues, for `@InjectQueue`. */
  static registerQueue(...queues: RegisterQueueOptions[]): DynamicModule;
  static registerQueueAsync(...queues: (AsyncOptions<Partial<StreamfleetOptions>> & { name?: string; configKey?: string })[]): DynamicModule;
}
export { StreamfleetModule as BullModule };

export interface WorkerOptions {
  /** How many jobs run at once in one worker; one by default. */
  concurrency?: number;
  settings?: { backoffStrategy?: (attemptsMade: number, type?: string, error?: Error, job?: Job) => number | Promise<number> };
}

export function InjectQueue(name?: string): PropertyDecorator & ParameterDecorator;
export function getQueueToken(name?: string): string;
/** Marks a class whose `process` handles the jobs of a queue. */
export function Processor(queueName: string, options?: WorkerOptions): ClassDecorator;
export function Processor(options: { name?: string; scope?: Scope }, workerOptions?: WorkerOptions): ClassDecorator;
/** Marks a method that is called when something has happened to a job of this processor: active, completed, failed or progress. The others never happen here. */
export function OnWorkerEvent(
  event: 'active' | 'completed' | 'failed' | 'progress' | 'closed' | 'closing' | 'drained' | 'error' | 'lockRenewalFailed' | 'paused' | 'ready' | 'resumed' | 'stalled',
): MethodDecorator;

export abstract class WorkerHost {
  readonly worker: { rateLimit(ms: number): Promise<void> };
  abstract process(job: Job, token?: string, signal?: AbortSignal): Promise<any>;
}

/**
 * The program of a pool: boots the application whose module this is, runs its processors until the worker wants no more, and closes it.
 * `streamfleet-nest FILE` calls it.
 */
export function runPool(
  module: Type<any>,
  options?: { logger?: LoggerService; inflight?: number; maxJobs?: number; configure?: (app: INestApplicationContext) => unknown },
): Promise<void>;
