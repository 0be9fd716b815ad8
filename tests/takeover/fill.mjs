// Fills a queue of BullMQ. Prints how many failed jobs it has.
import { Queue, Worker } from 'bullmq';

const [url, jobs, failed] = [process.argv[3], Number(process.argv[4]), Number(process.argv[5])];
const { hostname: host, port } = new URL(url);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const queue = new Queue('mail', { connection });

async function add(count, options) {
  for (let first = 0; first < count; first += 1000) {
    const ns = Array.from({ length: Math.min(1000, count - first) }, (_, at) => first + at);
    await queue.addBulk(ns.map((n) => ({ name: 'mail.send', data: { n }, opts: options(n) })));
  }
}

await add(failed, () => ({}));
const worker = new Worker('mail', async () => { throw new Error('no route'); }, { connection, concurrency: 200 });
while ((await queue.getFailedCount()) < failed) await new Promise((resolve) => setTimeout(resolve, 20));
await worker.close();
await add(jobs, (n) => (n % 10 === 0 ? { priority: 1 + (n % 7) } : {}));
await queue.close();
console.log(failed);
