/**
 * Queues and processors of NestJS on a streamfleet fleet, with the names that `@nestjs/bullmq` and `bullmq` have for them: an application changes
 * its imports and its configuration. What counts differently there is translated here.
 */
'use strict';

const { StreamfleetModule, InjectQueue, OnWorkerEvent, Processor, WorkerHost, getQueueToken } = require('./module.js');
const { runPool } = require('./pool.js');
const { DelayedError, FakeQueue, Job, Queue, RateLimitError, UnrecoverableError } = require('./queue.js');

module.exports = {
  StreamfleetModule,
  BullModule: StreamfleetModule,
  InjectQueue,
  OnWorkerEvent,
  Processor,
  WorkerHost,
  getQueueToken,
  runPool,
  DelayedError,
  FakeQueue,
  Job,
  Queue,
  RateLimitError,
  UnrecoverableError,
};
