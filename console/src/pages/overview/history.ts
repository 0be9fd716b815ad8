// What the queues did in the last hour, minute by minute. Leaders take one sample a minute, so it is asked for that often.
import { api, ok } from '../../api/client';
import { historyOf, type History } from '../queue/history';

/** Where each minute begins, and what was done in it. A minute without a sample has nothing: nobody counted then. */
export type Hour = Pick<History, 'times' | 'done' | 'failed' | 'arrived'>;

/** The most queues whose samples are read. */
const MOST_QUEUES = 40;

export const sum = (values: (number | null)[]): number => values.reduce<number>((all, value) => all + (value ?? 0), 0);

/** Reads the last hour of each queue. A queue whose samples cannot be read is left out. */
export async function hours(queues: string[], signal: AbortSignal): Promise<Map<string, Hour>> {
  const of = async (queue: string): Promise<[string, Hour] | undefined> => {
    const asked = ok(api.GET('/api/v1/queues/{queue}/stats', { params: { path: { queue }, query: { since: '1h' } }, signal }));
    const list = await asked.catch(() => undefined);
    return list && [queue, historyOf(list.items, '1h', Date.now())];
  };
  const found = await Promise.all(queues.slice(0, MOST_QUEUES).map(of));
  return new Map(found.filter((each) => each !== undefined));
}
