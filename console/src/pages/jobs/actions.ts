// What is done to jobs that were chosen one by one.
import { api, Failure, type JobRow } from '../../api/client';
import { say } from '../../shell/toasts.svelte';
import { t, type Key } from '../../words/words.svelte';

/** How many requests run at a time. */
const AT_ONCE = 6;

export type JobAction = 'cancel' | 'run-now';

/** Does it to each job, and says how many it was done to and why not to others. */
export async function act(action: JobAction, jobs: JobRow[], reason: string, done: Key): Promise<void> {
  const left = [...jobs];
  const refused: string[] = [];
  async function work(): Promise<void> {
    for (let job = left.pop(); job; job = left.pop()) {
      const params = { path: { queue: job.queue, id: job.id } };
      try {
        if (action === 'cancel') await api.POST('/api/v1/queues/{queue}/jobs/{id}/cancel', { params, body: { reason } });
        else await api.POST('/api/v1/queues/{queue}/jobs/{id}/run-now', { params, body: { reason } });
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        refused.push(error.message);
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const count = jobs.length - refused.length;
  if (count) say(t(done, { count }));
  if (refused.length) say(t('jobs.refused', { count: refused.length, why: refused[0]! }), { tone: 'bad' });
}
