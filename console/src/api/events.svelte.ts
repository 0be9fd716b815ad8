// Events as they happen. The browser reconnects by itself and gets what it has missed.
import { ok, api, type Schemas } from './client';

type Event = Schemas['Event'];

/** The most events that are kept. */
const MOST = 500;

/** How long to wait before a stream that the console has refused is asked for again, in milliseconds. */
const AGAIN_MS = 5000;

export class Events {
  /** The newest first. */
  items = $state.raw<Event[]>([]);
  isLive = $state(false);
  #source?: EventSource;
  #timer?: ReturnType<typeof setTimeout>;

  /** Begins with the component that creates it, and ends with it. Without a queue, it has the events of all. */
  constructor(queue?: () => string | undefined) {
    $effect(() => {
      const name = queue?.();
      this.items = [];
      this.#open(name ? `/api/v1/queues/${encodeURIComponent(name)}/events` : '/api/v1/events');
      return () => {
        clearTimeout(this.#timer);
        this.#source?.close();
      };
    });
  }

  #open(address: string): void {
    const source = new EventSource(address);
    this.#source = source;
    source.onopen = () => (this.isLive = true);
    source.onmessage = ({ data }) => (this.items = [JSON.parse(String(data)) as Event, ...this.items.slice(0, MOST - 1)]);
    source.onerror = () => {
      this.isLive = false;
      // The browser gives up if it was refused: perhaps the session has ended, for which any request asks.
      if (source.readyState !== EventSource.CLOSED) return;
      const again = () => (this.#timer = setTimeout(() => this.#source === source && this.#open(address), AGAIN_MS));
      ok(api.GET('/api/v1/session')).then(again, again);
    };
  }
}
