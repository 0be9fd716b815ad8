// Measures streamfleet and BullMQ in turns, and prints the table. compare.sh starts it in a folder with BullMQ:
// node compare.mjs PROGRAM SERVER JOBS ROUNDS CONCURRENCY
//
// `streamfleet bench` measures streamfleet and the raw commands. BullMQ gets what it gives its own jobs: a private server without persistence,
// a payload of 200 bytes, handlers that do nothing, 10 ms before a retry, no record of a job that succeeded, one process, and as many jobs of
// each kind.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import os from "node:os";
import { Queue, Worker } from "bullmq";

const [program, server] = process.argv.slice(2);
const [jobs, rounds, concurrency] = process.argv.slice(4).map(Number);
const ADD_AT_ONCE = 1000;
const options = { removeOnComplete: true, removeOnFail: true };

/** Jobs per second of streamfleet and of raw commands in one round, and how many jobs of each kind there were. */
function streamfleet() {
  const args = ["bench", "--only", "enqueue,plain,delayed,retried", "--rounds", "1", "--json"];
  const sizes = ["--jobs", String(jobs), "--concurrency", String(concurrency)];
  const env = { ...process.env, STREAMFLEET_TEST_REDIS: server };
  const report = JSON.parse(execFileSync(program, [...args, ...sizes], { env, stdio: ["ignore", "pipe", "inherit"] }));
  const { enqueue, drain, ways } = report;
  return {
    server: report.server,
    counts: { plain: ways.plain.jobs, delayed: ways.delayed.jobs, retried: ways.retried.jobs },
    raw: { enqueue: enqueue.raw_per_s, plain: drain.raw_per_s },
    streamfleet: { enqueue: enqueue.per_s, plain: drain.per_s, delayed: ways.delayed.per_s, retried: ways.retried.per_s },
  };
}

/** Jobs per second of BullMQ in one round. */
async function bullmq(connection, counts) {
  const plain = await run(connection, counts.plain, {});
  const delayed = await run(connection, counts.delayed, { delay: 1 });
  const retried = await run(connection, counts.retried, { attempts: 2, backoff: { type: "fixed", delay: 10 } });
  return { enqueue: plain.added, plain: plain.done, delayed: delayed.done, retried: retried.done };
}

/** Adds jobs with these options to an empty queue, and then runs them. Those with two attempts fail once. */
async function run(connection, count, own) {
  const queue = new Queue("compare", { connection });
  await queue.obliterate({ force: true });
  const job = { name: "noop", data: "x".repeat(200), opts: { ...options, ...own } };
  const begun = performance.now();
  for (let left = count; left > 0; left -= ADD_AT_ONCE) {
    await queue.addBulk(Array(Math.min(left, ADD_AT_ONCE)).fill(job));
  }
  const added = (count * 1000) / (performance.now() - begun);
  const handler = async ({ attemptsMade }) => {
    if (own.attempts > 1 && attemptsMade === 0) throw new Error("the first attempt fails");
  };
  const worker = new Worker("compare", handler, { connection, concurrency, autorun: false });
  const started = performance.now();
  let completed = 0;
  await new Promise((resolve, reject) => {
    worker.on("completed", () => ++completed === count && resolve());
    worker.on("error", reject);
    worker.run().catch(reject);
  });
  const done = (count * 1000) / (performance.now() - started);
  await worker.close();
  await queue.close();
  return { added, done };
}

/** Starts a private server without persistence, and returns it and its port. */
async function startServer() {
  const free = createServer().listen(0, "127.0.0.1");
  await once(free, "listening");
  const { port } = free.address();
  await new Promise((resolve) => free.close(resolve));
  const child = spawn(server, ["--bind", "127.0.0.1", "--port", String(port), "--save", "", "--appendonly", "no"]);
  for await (const text of child.stdout) if (String(text).includes("Ready to accept connections")) return { child, port };
  throw new Error(`${server} does not start`);
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1];
const ratio = (one, other, digits) => (other === undefined ? "" : (one / other).toFixed(digits));
const shown = (perSecond) => (perSecond === undefined ? "" : Number(perSecond.toPrecision(3)).toLocaleString("en-US"));

const version = JSON.parse(readFileSync("node_modules/bullmq/package.json", "utf8")).version;
const results = [];
const { child, port } = await startServer();
try {
  for (let round = 1; round <= rounds; round++) {
    console.error(`round ${round} of ${rounds}`);
    const ours = streamfleet();
    results.push({ ...ours, bullmq: await bullmq({ host: "127.0.0.1", port }, ours.counts) });
  }
} finally {
  child.kill();
}

const of = (who, kind) => {
  const all = results.map((result) => result[who][kind]);
  return all[0] === undefined ? undefined : median(all);
};
const ROWS = {
  enqueue: "submitted",
  plain: "run",
  delayed: "delayed",
  retried: "fail once",
};
const cpu = os.cpus()[0].model;
const counts = results[0].counts;
console.log(`${cpu}, ${os.cpus().length} cores, ${results[0].server}, Node ${process.version}; ${concurrency} handlers at a time;
medians of ${rounds} rounds with ${shown(counts.plain)} plain jobs, ${shown(counts.delayed)} delayed ones and ${shown(counts.retried)} that fail once:

| jobs per second | raw commands | streamfleet | BullMQ ${version} | streamfleet / raw | streamfleet / BullMQ |
|---|---|---|---|---|---|`);
for (const [kind, name] of Object.entries(ROWS)) {
  const [raw, ours, theirs] = ["raw", "streamfleet", "bullmq"].map((who) => of(who, kind));
  console.log(`| ${name} | ${shown(raw)} | ${shown(ours)} | ${shown(theirs)} | ${ratio(ours, raw, 2)} | ${ratio(ours, theirs, 0)} |`);
}
