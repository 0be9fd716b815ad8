// For measurements: submits jobs that do nothing, or runs them.
import 'reflect-metadata';
import { BullModule, InjectQueue, Processor, WorkerHost } from '@nestjs/bullmq';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Queue } from 'bullmq';

const connection = { host: '127.0.0.1', port: Number(process.env.REDIS_PORT) };

@Processor('bench', { concurrency: 50 })
class BenchProcessor extends WorkerHost {
  async process(): Promise<void> {}
}

@Injectable()
class Submitter {
  constructor(@InjectQueue('bench') readonly queue: Queue) {}
}

@Module({ imports: [BullModule.forRoot({ connection }), BullModule.registerQueue({ name: 'bench' })], providers: [Submitter] })
class ProducerModule {}

@Module({ imports: [ProducerModule], providers: [BenchProcessor] })
export class AppModule {}

async function main(): Promise<void> {
  const [role, count] = process.argv.slice(2);
  const app = await NestFactory.createApplicationContext(role === 'produce' ? ProducerModule : AppModule, { logger: ['error'] });
  app.enableShutdownHooks();
  if (role === 'work') return;
  const { queue } = app.get(Submitter);
  const opts = { removeOnComplete: true };
  const begun = performance.now();
  for (let at = 0; at < Number(count); at += 1000) {
    await queue.addBulk(Array.from({ length: 1000 }, (_, n) => ({ name: 'noop', data: { n: at + n }, opts })));
  }
  console.log(`rate ${Math.round((Number(count) / (performance.now() - begun)) * 1000)}`);
  await app.close();
}

// A program of a pool imports the module.
if (process.argv[2] === 'produce' || process.argv[2] === 'work') void main();
