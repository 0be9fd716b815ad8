// What is done to jobs that were chosen one by one.
import { each } from '../../actions/each';
import { api, type JobRow } from '../../api/client';
import { say } from '../../shell/toasts.svelte';
import { t, type Key } from '../../words/words.svelte';

export type JobAction = 'cancel' | 'run-now';

/** Does it to each job, and says how many it was done to and why not to others. */
export async function act(action: JobAction, jobs: JobRow[], reason: string, done: Key): Promise<void> {
  const refused = await each(jobs, (job) => {
    const params = { path: { queue: job.queue, id: job.id } };
    if (action === 'cancel') return api.POST('/api/v1/queues/{queue}/jobs/{id}/cancel', { params, body: { reason } });
    return api.POST('/api/v1/queues/{queue}/jobs/{id}/run-now', { params, body: { reason } });
  });
  const count = jobs.length - refused.length;
  if (count) say(t(done, { count }));
  if (refused.length) say(t('jobs.refused', { count: refused.length, why: refused[0]! }), { tone: 'bad' });
}
