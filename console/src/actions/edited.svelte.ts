// A delayed job while a form that changes it is open: as it was read, and whether somebody has changed it since.
import { Failure } from '../api/client';
import { Live } from '../api/live.svelte';
import { readJob, type Job, type Read } from '../pages/job/job';
import { instant } from '../words/format';
import { t, words } from '../words/words.svelte';

export class Edited {
  /** As it was when the form opened, or was renewed. */
  base = $state.raw<Read>();
  #live: Live<Read>;
  #isRefused = $state(false);

  /** Begins with the form that creates it, and ends with it. */
  constructor(queue: string, job: string) {
    this.#live = new Live((signal) => readJob(queue, job, signal), 3000, false);
    $effect(() => {
      this.base ??= this.#live.data;
    });
  }

  get now(): Job | undefined {
    return this.#live.data?.job;
  }

  /** The header that refuses the change if somebody was faster. There is no revision while fields are masked. */
  get based(): Record<string, string> {
    return this.base?.etag ? { 'If-Match': this.base.etag } : {};
  }

  /** What somebody has changed, in words. */
  get changed(): string | undefined {
    const [base, now] = [this.base, this.#live.data];
    if (!base || !now) return undefined;
    if (now.job.state !== base.job.state) return t('edited.state', { state: words.of('state', now.job.state) });
    if (now.job.due_ms !== base.job.due_ms) return t('edited.due', { time: now.job.due_ms ? instant(now.job.due_ms) : '–' });
    return this.#isRefused || now.etag !== base.etag ? t('edited.payload') : undefined;
  }

  /** Notices that a change was refused because somebody was faster. */
  async check<T>(change: Promise<T>): Promise<T> {
    try {
      return await change;
    } catch (error) {
      if (error instanceof Failure && error.status === 412) {
        this.#isRefused = true;
        this.#live.refresh();
      }
      throw error;
    }
  }

  /** Goes on with the job as it is now. */
  renew(): void {
    this.base = this.#live.data;
    this.#isRefused = false;
  }
}
