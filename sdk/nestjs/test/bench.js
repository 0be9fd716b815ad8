'use strict';

// node test/bench.js [JOBS] [PROCESSES]: jobs per second of an application on BullMQ and on streamfleet, on the same Redis, one after the other,
// with as many processes of the application. All jobs wait before the first one runs. STREAMFLEET_BIN should be a release build. check.sh runs it with --bench.

const fs = require('node:fs');
const { compiled, eventually, skip, staged } = require('./stage.js');

const [jobs = '20000', processes = '1'] = process.argv.slice(2);
const count = Number(jobs);

/** Processor time of programs and of what they have started, in milliseconds: it hardly depends on what else the machine does. */
function cpuOf(programs) {
  const stats = fs.readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name)).flatMap((pid) => {
    try {
      return [fs.readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/\(.*\)/, 'x').split(' ')];
    } catch {
      return [];
    }
  });
  const family = new Set(programs.map(({ pid }) => String(pid)));
  for (let level = 0; level < 2; level += 1) for (const stat of stats) if (family.has(stat[3])) family.add(stat[0]);
  return stats.filter(([pid]) => family.has(pid)).reduce((sum, stat) => sum + (Number(stat[13]) + Number(stat[14])) * 10, 0);
}

/** Jobs per second, and the processor time of a thousand of them. */
async function drained(what, programs, length) {
  await eventually(`the first job on ${what}`, async () => (await length()) < count);
  const begun = performance.now();
  const spent = cpuOf(programs);
  const left = await length();
  await eventually(`the last job on ${what}`, async () => (await length()) === 0, 600_000);
  return [(left / (performance.now() - begun)) * 1000, ((cpuOf(programs) - spent) / left) * 1000];
}

async function main() {
  if (skip) throw new Error(skip);
  await staged(async (stage) => {
    const number = async (...command) => Number((await stage.server.ask(...command)).slice(1));
    const submitted = async (driver, cwd) => {
      const name = `${driver}.produce`;
      await stage.start(name, [process.execPath, 'dist/bench.js', 'produce', jobs], cwd).ended;
      return Number(/rate ([0-9]+)/.exec(stage.log(name))[1]);
    };
    const all = Array.from({ length: Number(processes) });

    const bull = compiled(stage.folder, 'bullmq');
    const bullIn = await submitted('bullmq', bull);
    const workers = all.map(() => stage.start('bullmq', [process.execPath, 'dist/bench.js', 'work'], bull));
    const [bullOut, bullCpu] = await drained('BullMQ', workers, async () => (await number('LLEN', 'bull:bench:wait')) + (await number('LLEN', 'bull:bench:active')));
    for (const worker of workers) worker.kill('SIGKILL');
    for (const worker of workers) await worker.ended;
    await stage.server.ask('FLUSHALL');

    const own = compiled(stage.folder, 'streamfleet');
    const ownIn = await submitted('streamfleet', own);
    const worker = await stage.worker(own, { processes: all.length, inflight: 50, file: 'bench', prefetch: 64, types: ['bench'] });
    const [ownOut, ownCpu] = await drained('streamfleet', [worker], () => number('XLEN', 'sf:{default}:jobs'));
    for (const [what, before, after] of [['submitted', bullIn, ownIn], ['run', bullOut, ownOut]]) {
      console.log(`${what.padEnd(10)} BullMQ ${Math.round(before)}/s, streamfleet ${Math.round(after)}/s: ratio ${(after / before).toFixed(1)}`);
    }
    const cpu = `BullMQ ${Math.round(bullCpu)} ms of 1000 jobs, streamfleet ${Math.round(ownCpu)} ms, with its worker, without Redis`;
    console.log(`CPU        ${cpu}: ratio ${(bullCpu / ownCpu).toFixed(1)}`);
  });
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
