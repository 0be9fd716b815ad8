// Starts the application, with its processors or without, submits the jobs of the shop, and waits to be stopped.
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { Shop } from './jobs.js';
import { AppModule, ShopModule } from './shop.module.js';

async function main(): Promise<void> {
  const [role, count] = process.argv.slice(2);
  const app = await NestFactory.createApplicationContext(role === 'produce' ? ShopModule : AppModule, { logger: ['error'] });
  app.enableShutdownHooks();
  if (role === 'work') return;
  await (count === undefined ? app.get(Shop).open() : app.get(Shop).pack(Number(count)));
  console.log('submitted');
  if (role === 'produce') await app.close();
}

void main();
