// The pages of the history's list: each begins where the last one ended, and rows that are there stay.
import { untrack } from 'svelte';
import { api, Failure, ok } from '../../api/client';
import { freshness } from '../../api/live.svelte';
import type { Filter } from '../../parts/filter';
import { conditionsOf, type PastJob } from './past';

/** How many jobs a page has at most. */
const PAGE = 100;

/** How many pages are read for one that has any rows: a condition without an index of its own leaves pages empty. */
const MOST_EMPTY = 10;

export class PastPages {
  rows = $state.raw<PastJob[]>([]);
  /** `more` if there are further pages. */
  state = $state<'looking' | 'more' | 'complete' | 'failed'>('looking');
  failure = $state.raw<Failure>();
  /** The conditions of all pages, as the API takes them. */
  conditions: Record<string, string> = {};
  #queue = '';
  #next: string | null = null;
  #asked?: AbortController;

  /** Reads the first page of what these filters ask for. */
  begin(queue: string, filters: Filter[]): void {
    this.#asked?.abort();
    this.#queue = queue;
    this.conditions = conditionsOf(filters, Date.now());
    this.#next = null;
    this.rows = [];
    // The effect that begins does not depend on what is found.
    untrack(() => void this.more());
  }

  /** Reads on until there are further rows, or no more pages. */
  async more(): Promise<void> {
    const asked = (this.#asked = new AbortController());
    Object.assign(this, { state: 'looking', failure: undefined });
    try {
      for (let empty = 0; empty < MOST_EMPTY; empty += 1) {
        const query = { ...this.conditions, limit: PAGE, after: this.#next ?? undefined };
        const page = await ok(api.GET('/api/v1/queues/{queue}/history', { params: { path: { queue: this.#queue }, query }, signal: asked.signal }));
        if (asked.signal.aborted) return;
        this.rows = [...this.rows, ...page.items];
        this.#next = page.next;
        if (page.items.length || page.next === null) break;
      }
      this.state = this.#next === null ? 'complete' : 'more';
      Object.assign(freshness, { atMs: Date.now(), failure: undefined });
    } catch (error) {
      if (asked.signal.aborted) return;
      this.failure = error instanceof Failure ? error : new Failure(0, String(error));
      this.state = 'failed';
    }
  }

  /** Gives up what is being read. */
  stop(): void {
    this.#asked?.abort();
  }
}
