// Brings ended jobs back as dead letters, page by page, while the page of the history is open. What is brought back stays.
import { api, Failure, ok, type Schemas } from '../../api/client';

/** How many jobs a request is about at most. */
const PAGE = 100;

export class Restoring {
  filed = $state(0);
  /** How many of at most `most` jobs were looked at. */
  looked = $state(0);
  kept = $state.raw<Record<string, number>>({});
  group = $state('');
  state = $state<'running' | 'stopped' | 'done' | 'failed'>('running');
  failure = $state.raw<Failure>();
  #next: string | null = null;

  /** At most `most` jobs of the queue, which fulfill the conditions, the latest ends first. */
  constructor(
    readonly queue: string,
    private readonly conditions: Record<string, string>,
    readonly most: number,
    private readonly reason: string,
  ) {}

  /** Brings back the first page. What keeps it from beginning is thrown. */
  async begin(): Promise<void> {
    await this.#page();
  }

  /** Brings back the other pages, until there are no more, somebody stops it, or it fails. */
  async goOn(): Promise<void> {
    this.failure = undefined;
    if (this.state !== 'done') this.state = 'running';
    try {
      while (this.state === 'running') await this.#page();
    } catch (error) {
      this.failure = error instanceof Failure ? error : new Failure(0, String(error));
      this.state = 'failed';
    }
  }

  /** Stops after the page that is on its way. */
  stop(): void {
    if (this.state === 'running') this.state = 'stopped';
  }

  async #page(): Promise<void> {
    const limit = Math.min(PAGE, this.most - this.looked);
    const page = (await ok(
      api.POST('/api/v1/queues/{queue}/history/restore', {
        params: { path: { queue: this.queue } },
        body: { filter: this.conditions as Schemas['PastSelection'], group: this.group || undefined, after: this.#next ?? undefined, limit, reason: this.reason },
      }),
    )) as Schemas['Restored'];
    const kept = { ...this.kept };
    for (const [why, count] of Object.entries(page.kept)) kept[why] = (kept[why] ?? 0) + count;
    Object.assign(this, { looked: this.looked + page.looked, filed: this.filed + page.filed, kept, group: page.group });
    this.#next = page.next ?? null;
    if (this.#next === null || this.looked >= this.most) this.state = 'done';
  }
}
