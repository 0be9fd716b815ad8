// Recurring jobs: what can be done to one, and its last ticks.
import ChangeCron, { type CronAction } from '../../actions/ChangeCron.svelte';
import EditCron from '../../actions/EditCron.svelte';
import { api, ok, type Schemas } from '../../api/client';
import { session } from '../../api/session.svelte';
import type { MenuItem } from '../../parts/Menu.svelte';
import { openDrawer } from '../../shell/drawer.svelte';
import { toWith } from '../../shell/router.svelte';
import { t } from '../../words/words.svelte';

export type Recurring = Schemas['RecurringJob'];
export type Tick = Schemas['RecurringTick'];

/** The most recurring jobs whose last ticks are read for the list. */
const MOST = 60;

export const idOf = (job: Recurring) => `${job.queue}/${job.name}`;

/**
 * Reads the last ticks of a recurring job, the newest first. The API counts ticks back from before the job was added: those before
 * the oldest one whose job is known are left out, because nobody knows whether they were ticks at all.
 */
export async function ticksOf({ queue, name }: Pick<Recurring, 'queue' | 'name'>, last: number, signal: AbortSignal): Promise<Tick[]> {
  const { items } = await ok(api.GET('/api/v1/queues/{queue}/cron/{name}/ticks', { params: { path: { queue, name }, query: { last } }, signal }));
  return items.slice(0, items.findLastIndex((tick) => tick.state != null) + 1);
}

/** Reads the last ticks of many. Those that cannot be read are left out. */
export async function allTicks(jobs: Pick<Recurring, 'queue' | 'name'>[], last: number, signal: AbortSignal): Promise<Map<string, Tick[]>> {
  const left = jobs.slice(0, MOST);
  const found = new Map<string, Tick[]>();
  async function work(): Promise<void> {
    for (let job = left.shift(); job; job = left.shift()) {
      const ticks = await ticksOf(job, last, signal).catch(() => undefined);
      if (ticks) found.set(`${job.queue}/${job.name}`, ticks);
    }
  }
  await Promise.all(Array.from({ length: 6 }, work));
  return found;
}

/** Opens the form of an action. */
export function change(action: CronAction, job: Recurring, done: () => void): void {
  openDrawer(t(`cron.${action}_title`, { name: job.name }), ChangeCron, { action, job, done });
}

/** Opens the form that adds a recurring job, or replaces this one. */
export function edit(job: Recurring | undefined, queues: string[], done: () => void): void {
  openDrawer(job ? t('cron.edit_title', { name: job.name }) : t('cron.add_title'), EditCron, { job, queues, done });
}

/** What this person may do to a recurring job. */
export function menuOf(job: Recurring, done: () => void): MenuItem[] {
  const jobs: MenuItem = { label: t('nav.jobs'), href: toWith(['queues', job.queue], { tab: 'jobs', type: job.type ?? '' }) };
  if (!session.may('operator', job.queue)) return [jobs];
  return [
    { label: t('cron.run'), run: () => change('run', job, done) },
    job.paused ? { label: t('cron.resume'), run: () => change('resume', job, done) } : { label: t('cron.pause'), run: () => change('pause', job, done) },
    ...(job.error ? [] : [{ label: t('cron.edit'), run: () => edit(job, [job.queue], done) }]),
    jobs,
    { label: t('cron.remove'), danger: true, run: () => change('remove', job, done) },
  ];
}
