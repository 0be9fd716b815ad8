// Checked by tsc, and not run: a processor, a queue and modules with their types, and mistakes that they catch.
import { Processor, WorkerHost, Job, Queue, InjectQueue, StreamfleetModule, BullModule, FakeQueue, runPool, UnrecoverableError, RateLimitError, OnWorkerEvent, getQueueToken } from '@streamfleet/nestjs';
import { Module, Scope } from '@nestjs/common';
@Processor({ name: 'a', scope: Scope.REQUEST }, { concurrency: 5, settings: { backoffStrategy: (n: number) => n * 10 } })
class P extends WorkerHost {
  constructor(@InjectQueue('a') private readonly q: Queue<{ n: number }, string>) { super(); }
  async process(job: Job<{ n: number }, string>): Promise<string> {
    const n: number = job.data.n;
    if (n < 0) throw new UnrecoverableError('x');
    await this.worker.rateLimit(5);
    if (n > 5) throw new RateLimitError();
    await this.q.add('x', { n: 1 }, { delay: 5, attempts: 3, backoff: { type: 'fixed', delay: 3 } });
    // @ts-expect-error: the data has another shape.
    await this.q.add('x', { m: 1 });
    // @ts-expect-error: there is no such option.
    await this.q.add('x', { n: 1 }, { attemps: 3 });
    return job.name;
  }
  @OnWorkerEvent('completed') done(job: Job): void { console.log(job.id); }
}
@Module({ imports: [StreamfleetModule.forRoot({ connection: { host: 'x' }, http: { url: 'http://x', token: 't' } }), BullModule.forRootAsync({ useFactory: async () => ({ connection: {} }), inject: [] }), BullModule.registerQueue({ name: 'a', defaultJobOptions: { attempts: 3, removeOnComplete: { age: 3 } } }, { name: 'b' })], providers: [P, { provide: getQueueToken('a'), useValue: new FakeQueue('a') }] })
class M {}
void runPool(M, { inflight: 5 });
