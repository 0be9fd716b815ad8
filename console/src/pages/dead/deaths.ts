// When the jobs of each group died in the last day, an hour a part.
import { api, ok } from '../../api/client';

/** The deaths of each group, by `queue/group`. */
export type Deaths = Map<string, number[]>;

/** Reads the deaths of each queue, one after the other: they are counted by looking at letters. */
export async function deathsOf(queues: string[], signal: AbortSignal): Promise<Deaths> {
  const deaths: Deaths = new Map();
  for (const queue of queues) {
    const list = await ok(api.GET('/api/v1/queues/{queue}/dead/deaths', { params: { path: { queue }, query: { since: '24h' } }, signal }));
    for (const item of list.items) deaths.set(`${queue}/${item.group}`, item.deaths);
  }
  return deaths;
}
