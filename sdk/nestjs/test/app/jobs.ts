// An application as the tutorials write it: mail, delay, retry, failure and a chain. It imports @nestjs/bullmq and bullmq; the test replaces these
// imports and the configuration in shop.module.ts, and nothing else.
import { InjectQueue, OnWorkerEvent, Processor, WorkerHost } from '@nestjs/bullmq';
import { Injectable, Logger } from '@nestjs/common';
import { DelayedError, Job, Queue, UnrecoverableError } from 'bullmq';
import { appendFileSync } from 'node:fs';

/** Writes what happens into a file that the test reads. */
@Injectable()
export class Journal {
  note(what: string, facts: object = {}): void {
    appendFileSync(process.env.JOURNAL!, `${JSON.stringify({ what, ...facts })}\n`);
  }
}

interface Mail {
  to: string;
}

@Processor('Mail')
export class MailProcessor extends WorkerHost {
  private readonly logger = new Logger(MailProcessor.name);

  constructor(private readonly journal: Journal) {
    super();
  }

  async process(job: Job<Mail>): Promise<{ sent: boolean }> {
    await job.updateProgress(50);
    await job.log('connected');
    this.logger.log(`writing to ${job.data.to}`);
    this.journal.note('mail', { to: job.data.to, name: job.name });
    return { sent: true };
  }

  @OnWorkerEvent('completed')
  completed(job: Job<Mail>, result: unknown): void {
    this.journal.note('completed', { name: job.name, result, data: job.data, attemptsMade: job.attemptsMade });
  }
}

@Processor('payments', { concurrency: 5 })
export class PaymentProcessor extends WorkerHost {
  private delayed = false;

  constructor(private readonly journal: Journal) {
    super();
  }

  async process(job: Job, token?: string): Promise<number> {
    this.journal.note('attempt', { name: job.name, attemptsMade: job.attemptsMade, attempts: job.opts.attempts });
    switch (job.name) {
      case 'flaky':
        if (job.attemptsMade < 2) throw new Error('the bank is busy');
        return job.attemptsMade;
      case 'hopeless':
        throw new UnrecoverableError('no such account');
      case 'later':
        if (!this.delayed) {
          this.delayed = true;
          await job.moveToDelayed(Date.now() + 200, token);
          throw new DelayedError();
        }
        return 0;
      default:
        throw new TypeError(`no ${job.name}`);
    }
  }

  @OnWorkerEvent('failed')
  failed(job: Job, error: Error): void {
    this.journal.note('failed', { name: job.name, error: error.message, attemptsMade: job.attemptsMade });
  }
}

/** Each step adds the next one, as an order goes from hand to hand. */
@Processor('orders')
export class OrderProcessor extends WorkerHost {
  constructor(
    private readonly journal: Journal,
    @InjectQueue('orders') private readonly orders: Queue,
    @InjectQueue('Mail') private readonly mail: Queue,
  ) {
    super();
  }

  async process(job: Job<{ order: number }>): Promise<void> {
    this.journal.note('order', { name: job.name, order: job.data.order });
    if (job.name === 'pack') await this.orders.add('ship', job.data);
    else await this.mail.add('shipped', { to: `order-${job.data.order}@example.com` });
  }
}

/** What a controller would do. */
@Injectable()
export class Shop {
  constructor(
    @InjectQueue('Mail') private readonly mail: Queue,
    @InjectQueue('payments') private readonly payments: Queue,
    @InjectQueue('orders') private readonly orders: Queue,
  ) {}

  async open(): Promise<void> {
    await this.mail.add('welcome', { to: 'ann@example.com' });
    await this.mail.add('reminder', { to: 'bob@example.com' }, { delay: 300 });
    await this.payments.add('flaky', {}, { attempts: 3, backoff: { type: 'exponential', delay: 20 } });
    await this.payments.add('broken', {}, { attempts: 2, backoff: 20 });
    await this.payments.add('once', {});
    await this.payments.add('hopeless', {}, { attempts: 5 });
    await this.payments.add('later', {});
    await this.orders.addBulk([1, 2].map((order) => ({ name: 'pack', data: { order } })));
  }

  /** Many orders, for the test that kills workers. */
  async pack(count: number): Promise<void> {
    await this.orders.addBulk(Array.from({ length: count }, (_, order) => ({ name: 'pack', data: { order } })));
  }
}
