// How fast the memory of Redis grows: samples that this browser has taken, kept for a day.
import type { Schemas } from './client';

type Server = Schemas['Server'];
type Sample = [atMs: number, bytes: number];

const KEPT = 'streamfleet.memory';
const KEEP_MS = 86_400_000;

/** How often a sample is kept, and the least time over which growth says something. */
const EVERY_MS = 30_000;
const LEAST_MS = 300_000;

/** Over how long growth is measured. */
const WINDOW_MS = 3_600_000;

const read = (): Record<string, Sample[]> => {
  try {
    return JSON.parse(localStorage.getItem(KEPT) ?? '{}') as Record<string, Sample[]>;
  } catch {
    return {};
  }
};

/** Keeps what servers use now. */
export function keepSamples(servers: Server[], nowMs: number): void {
  const all = read();
  for (const { node, used_memory_bytes: bytes, uptime_ms } of servers) {
    if (bytes == null) continue;
    // What was before a restart says nothing.
    const begun = nowMs - (uptime_ms ?? KEEP_MS);
    const samples = (all[node ?? ''] ?? []).filter(([atMs]) => atMs > Math.max(begun, nowMs - KEEP_MS));
    if (nowMs - (samples.at(-1)?.[0] ?? 0) >= EVERY_MS) samples.push([nowMs, bytes]);
    all[node ?? ''] = samples;
  }
  localStorage.setItem(KEPT, JSON.stringify(all));
}

/** The samples of a server, oldest first. */
export const samplesOf = ({ node }: Server): Sample[] => read()[node ?? ''] ?? [];

/** In how many minutes it is known how fast a server grows, at least one. */
export function knownIn(samples: Sample[], nowMs: number): number {
  const last = samples.at(-1)?.[0] ?? nowMs;
  const first = samples.find(([atMs]) => atMs >= last - WINDOW_MS)?.[0] ?? nowMs;
  return Math.max(1, Math.ceil((LEAST_MS - (nowMs - first)) / 60_000));
}

/** How many bytes an hour it grows, by the line that fits the last hour best; undefined if it is not known for long enough. */
export function growth(samples: Sample[]): number | undefined {
  const last = samples.at(-1)?.[0] ?? 0;
  const seen = samples.filter(([atMs]) => atMs >= last - WINDOW_MS);
  if (last - (seen[0]?.[0] ?? last) < LEAST_MS) return undefined;
  const mean = (nth: 0 | 1) => seen.reduce((sum, sample) => sum + sample[nth], 0) / seen.length;
  const [atMs, bytes] = [mean(0), mean(1)];
  const of = (other: 0 | 1) => seen.reduce((sum, sample) => sum + (sample[0] - atMs) * (sample[other] - (other ? bytes : atMs)), 0);
  return (of(1) / of(0)) * 3_600_000;
}
