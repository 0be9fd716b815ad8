// What the queues did in the last hour, minute by minute. Leaders take one sample a minute, so it is asked for that often.
import { api, ok, type Schemas } from '../../api/client';

type Sample = Schemas['Sample'];

export interface Hour {
  minutes: number[];
  done: number[];
  failed: number[];
  arrived: number[];
}

/** The most queues whose samples are read. */
const MOST_QUEUES = 40;

const MINUTES = 60;

/** Puts the samples of an hour on their minutes; minutes without a sample are zero. */
export function hourOf(samples: Sample[], nowMs: number): Hour {
  const last = Math.floor(nowMs / 60_000);
  const minutes = Array.from({ length: MINUTES }, (_, nth) => (last - MINUTES + 1 + nth) * 60);
  const hour: Hour = { minutes, done: [], failed: [], arrived: [] };
  for (const key of ['done', 'failed', 'arrived'] as const) hour[key] = Array<number>(MINUTES).fill(0);
  for (const sample of samples) {
    const nth = Math.floor(sample.at_ms / 60_000) - (last - MINUTES + 1);
    if (nth < 0 || nth >= MINUTES) continue;
    hour.done[nth]! += sample.done;
    hour.failed[nth]! += sample.failed;
    hour.arrived[nth]! += sample.arrived;
  }
  return hour;
}

export const sum = (values: number[]): number => values.reduce((all, value) => all + value, 0);

/** Reads the last hour of each queue. A queue whose samples cannot be read is left out. */
export async function hours(queues: string[], signal: AbortSignal): Promise<Map<string, Hour>> {
  const of = async (queue: string): Promise<[string, Hour] | undefined> => {
    const asked = ok(api.GET('/api/v1/queues/{queue}/stats', { params: { path: { queue }, query: { since: '1h' } }, signal }));
    const list = await asked.catch(() => undefined);
    return list && [queue, hourOf(list.items, Date.now())];
  };
  const found = await Promise.all(queues.slice(0, MOST_QUEUES).map(of));
  return new Map(found.filter((each) => each !== undefined));
}
