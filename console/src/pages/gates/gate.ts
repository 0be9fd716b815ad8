// Gates: what their names mean, whether they are in use, and how long those wait that they hold.
import type { Schemas } from '../../api/client';
import { t } from '../../words/words.svelte';

/** A gate of a queue. What is not known of it is missing: then only its name counts. */
export type Target = Partial<Schemas['Gate']> & { queue: string; gate: string };

/** The body with which a gate is paused or resumed: it names a type, a key, or nothing for the whole queue. */
export function named(gate: string): { type?: string; key?: string } {
  if (gate.startsWith('type:')) return { type: gate.slice(5) };
  return gate.startsWith('key:') ? { key: gate.slice(4) } : {};
}

/** Whether the gate holds or may hold jobs at present. One that nobody has set and that all pass says nothing. */
export function isUsed(gate: Target): boolean {
  const isQuiet = gate.state === 'open' || gate.state === 'shared';
  return !isQuiet || (gate.held ?? 0) > 0 || (gate.waiting ?? 0) > 0 || gate.source === 'command';
}

/** The state that is shown: a gate that is open holds all the same if jobs wait for it. */
export function stateOf(gate: Target): string {
  return gate.state === 'open' && gate.waiting ? 'holding' : (gate.state ?? 'open');
}

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** How many jobs a rate such as `2/s` or `600/10m` lets pass in a millisecond. */
export function perMs(rate: string | null | undefined): number | undefined {
  const [, count, periods, unit] = /^\s*(\d+(?:\.\d+)?)\s*\/\s*(\d*)\s*(ms|s|m|h|d)(?:\s+burst\s+\d+)?\s*$/.exec(rate ?? '') ?? [];
  const period = Number(periods || 1) * (UNITS[unit ?? ''] ?? 0);
  return count && period ? Number(count) / period : undefined;
}

/** How long the jobs take that wait for a gate, if only its rate held them. */
export function lastsMs(waiting: number | null | undefined, rate: string | null | undefined): number | undefined {
  const pace = perMs(rate);
  return waiting && pace ? waiting / pace : undefined;
}

/** A rate that lets so many times more jobs pass. */
export function times(rate: string, factor: number): string {
  return rate.replace(/^\s*(\d+(?:\.\d+)?)/, (count) => String(Math.max(1, Math.round(Number(count) * factor))));
}

/** When failures close a gate: the share of them in percent, of how many attempts, within what time, and for how long. */
export interface Breaker {
  share: number;
  attempts: number;
  within: string;
  shut: string;
}

/** Reads a breaker as gates show it (`50% of 20 in 1m, then 30s`) or as the API takes it (`50%/20/1m/30s`). */
export function breakerOf(text: string | null | undefined): Breaker | undefined {
  const [, share, attempts, within, shut] = /^([\d.]+)%(?: of |\/)(\d+)(?: in |\/)(.+?)(?:, then |\/)(.+)$/.exec(text ?? '') ?? [];
  const short = (time: string | undefined) => (time ?? '').replaceAll(' ', '');
  return share ? { share: Number(share), attempts: Number(attempts), within: short(within), shut: short(shut) } : undefined;
}

/** The limits of a gate as the API takes them. */
export function taken({ concurrency, rate, breaker }: Pick<Target, 'concurrency' | 'rate' | 'breaker'>): Pick<Target, 'concurrency' | 'rate' | 'breaker'> {
  const parts = breakerOf(breaker);
  return { concurrency, rate, breaker: parts ? `${parts.share}%/${parts.attempts}/${parts.within}/${parts.shut}` : null };
}

/** The limits in one line, as the command line says them. */
export function limitsOf({ concurrency, rate, breaker }: Pick<Target, 'concurrency' | 'rate' | 'breaker'>): string {
  return [concurrency && t('limit.at_once', { count: concurrency }), rate, breaker].filter(Boolean).join(', ') || '–';
}

/** What gates are called together: the name if there is one, else how many. */
export function what(targets: Target[]): string {
  const [first] = targets;
  const names = new Set(targets.map((target) => target.gate));
  const queues = new Set(targets.map((target) => target.queue));
  const gate = names.size === 1 ? (first!.gate === 'queue' ? '' : first!.gate) : t('gates.count', { count: names.size });
  const queue = queues.size === 1 ? first!.queue : t('gates.queues', { count: queues.size });
  return gate ? `${gate} · ${queue}` : queue;
}
