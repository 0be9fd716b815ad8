// What this tab has looked at last, such as a queue or a job, for the palette.
import { session } from '../api/session.svelte';

/** How many are kept: the one that is looked at is not offered. */
const MOST = 7;

const kept = () => `streamfleet.recent.${session.person?.name ?? ''}`;

/** The addresses as segments, the latest first. */
export function recent(): string[][] {
  try {
    const all: unknown = JSON.parse(sessionStorage.getItem(kept()) ?? '[]');
    return Array.isArray(all) ? (all as string[][]) : [];
  } catch {
    // What another version kept is given up.
    return [];
  }
}

/** Notes that a page is looked at. */
export function visited(segments: string[]): void {
  const name = segments.join('/');
  const all = [segments, ...recent().filter((other) => other.join('/') !== name)];
  sessionStorage.setItem(kept(), JSON.stringify(all.slice(0, MOST)));
}
