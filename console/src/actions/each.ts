// One request for each of several things that were chosen one by one.
import { Failure } from '../api/client';

/** How many requests run at a time. */
const AT_ONCE = 6;

/** Does it to each. Returns why not, for those that the API refused. */
export async function each<T>(items: T[], act: (item: T) => Promise<unknown>): Promise<string[]> {
  const left = items.toReversed();
  const refused: string[] = [];
  async function work(): Promise<void> {
    for (let item = left.pop(); item !== undefined; item = left.pop()) {
      try {
        await act(item);
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        refused.push(error.message);
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return refused;
}
