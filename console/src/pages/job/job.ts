// What the API says about one job, and how a page gets it.
import { api, type Schemas } from '../../api/client';
import { exact } from '../../api/exact';

/** A job. Its input is missing if its fields are gone. */
export type Job = Omit<Schemas['Job'], keyof Schemas['JobInput']> & Partial<Schemas['JobInput']>;
export type Prospects = Schemas['JobProspects'];
export type JobStep = Schemas['JobStep'];

/** A job with its revision, if it can be edited. */
export interface Read {
  job: Job;
  etag?: string;
}

const ENDED = new Set(['done', 'cancelled', 'dead']);

/** Whether nothing happens to the job by itself any more. */
export function isOver(job: Job | undefined): boolean {
  return job !== undefined && ENDED.has(job.state);
}

/** Reads a job. `full` also gets a large payload. Numbers of payloads and results keep all their digits. */
export async function readJob(queue: string, id: string, signal?: AbortSignal, full?: boolean): Promise<Read> {
  const params = { path: { queue, id }, query: full ? { full } : {} };
  const { data, response } = await api.GET('/api/v1/queues/{queue}/jobs/{id}', { params, signal, parseAs: 'text' });
  return { job: exact(String(data)) as Job, etag: response.headers.get('etag') ?? undefined };
}

/** Waits until the job has ended, as long as anybody looks at it. It gives up without an error: the page asks by itself, too. */
export async function follow(queue: string, id: string, signal: AbortSignal): Promise<void> {
  const params = { path: { queue, id }, query: { wait: '30s' } };
  for (let isLive = true; isLive; ) {
    const { data } = await api.GET('/api/v1/queues/{queue}/jobs/{id}', { params, signal }).catch(() => ({ data: undefined }));
    isLive = data !== undefined && !signal.aborted && !isOver(data as unknown as Job);
  }
}
