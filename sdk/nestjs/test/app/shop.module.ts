import { BullModule } from '@nestjs/bullmq';
import { Module } from '@nestjs/common';
import { Journal, MailProcessor, OrderProcessor, PaymentProcessor, Shop } from './jobs.js';

const connection = { host: '127.0.0.1', port: Number(process.env.REDIS_PORT) };
const queues = BullModule.registerQueue({ name: 'Mail' }, { name: 'payments' }, { name: 'orders' });

@Module({ imports: [BullModule.forRoot({ connection }), queues], providers: [Journal, Shop], exports: [Shop] })
export class ShopModule {}

/** With its processors, as the application of a tutorial has them. */
@Module({ imports: [ShopModule, queues], providers: [Journal, MailProcessor, PaymentProcessor, OrderProcessor] })
export class AppModule {}
