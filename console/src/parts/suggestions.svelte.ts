// Names to propose for filters: queues, types, gates and workers that there are.
import { api, ok, type Schemas } from '../api/client';

const STATES = ['waiting', 'running', 'scheduled', 'retrying', 'dead', 'done', 'cancelled'];
const TIMES = ['15m', '1h', '6h', '1d', '7d'];

/** Asks once for the names that there are. `values` has those that may stand after a word of a filter. */
export function suggestionsOf() {
  let known = $state.raw<Schemas['Suggestions']>();
  ok(api.GET('/api/v1/suggestions')).then(
    (names) => (known = names),
    // Without them, people type the names.
    () => undefined,
  );
  return {
    get queues(): string[] {
      return known?.queues ?? [];
    },
    values(word: string): string[] {
      if (word === 'queue') return known?.queues ?? [];
      if (word === 'type') return known?.types ?? [];
      if (word === 'gate') return known?.gates ?? [];
      if (word === 'worker') return known?.workers ?? [];
      if (word === 'state') return STATES;
      return ['since', 'until', 'older'].includes(word) ? TIMES : [];
    },
  };
}
