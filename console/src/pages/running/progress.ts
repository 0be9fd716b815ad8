// How far running jobs are, as their handlers report it. Lists do not have it, so each job is asked for.
import { api, ok, type Schemas } from '../../api/client';
import { orNone } from '../job/family';

type Progress = Schemas['Progress'];

/** Reads the progress of jobs: lines of a queue and an id, with a slash between them. Queues have no slash in their names. */
export async function progressOf(jobs: string, signal: AbortSignal): Promise<Map<string, Progress>> {
  const found = await Promise.all(
    jobs.split('\n').filter(Boolean).map(async (job) => {
      const [queue, id] = [job.slice(0, job.indexOf('/')), job.slice(job.indexOf('/') + 1)];
      const read = await orNone(ok(api.GET('/api/v1/queues/{queue}/jobs/{id}', { params: { path: { queue, id } }, signal })));
      return read?.progress ? ([[job, read.progress]] as const) : [];
    }),
  );
  return new Map(found.flat());
}
