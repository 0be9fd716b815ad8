// The types of a queue: those that workers know, those whose jobs wait because none does, and those that had attempts lately.
import type { Schemas } from '../../api/client';
import { limitsOf } from '../gates/gate';

export interface TypeRow {
  type: string;
  stats?: Schemas['TypeStats'];
  /** Its own gate, if it has a rule. */
  gate?: Schemas['Gate'];
  /** The limits of that gate; empty if it has none. */
  limits: string;
  unserved?: Schemas['UnservedType'];
}

/** One row for each type: those in need first, then those with the most attempts. */
export function typeRows(known: Schemas['QueueTypeList'] | undefined, stats: Schemas['TypeStats'][], gates: Schemas['Gate'][]): TypeRow[] {
  const ofType = new Map(stats.flatMap((each) => (each.type == null ? [] : [[each.type, each] as const])));
  const ofGate = new Map(gates.map((gate) => [gate.gate, gate]));
  const unserved = new Map((known?.unserved_types ?? []).map((each) => [each.type, each]));
  const gated = gates.flatMap(({ gate, state, waiting }) => (gate.startsWith('type:') && (state !== 'open' || waiting) ? [gate.slice(5)] : []));
  const names = new Set([...(known?.items ?? []).map((each) => each.type), ...unserved.keys(), ...ofType.keys(), ...gated]);
  const rows = [...names].map((type): TypeRow => {
    const gate = ofGate.get(`type:${type}`);
    const hasLimit = gate && (gate.concurrency || gate.rate || gate.breaker);
    return { type, stats: ofType.get(type), gate, limits: hasLimit ? limitsOf(gate) : '', unserved: unserved.get(type) };
  });
  const rank = (row: TypeRow) => (row.unserved ? 2 : row.gate?.state === 'paused' || row.gate?.waiting ? 1 : 0);
  const attempts = (row: TypeRow) => row.stats?.run.count ?? 0;
  return rows.sort((one, other) => rank(other) - rank(one) || attempts(other) - attempts(one) || one.type.localeCompare(other.type));
}

/** How many attempts of a hundred failed. */
export function failedShare({ stats }: TypeRow): number | undefined {
  const all = stats && stats.done + stats.failed;
  return all ? (stats.failed / all) * 100 : undefined;
}
