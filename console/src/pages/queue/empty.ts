// When a queue is empty, as pages write it.
import type { Queue } from '../../api/client';
import { duration } from '../../words/format';
import { t } from '../../words/words.svelte';

/** How long until nothing waits, or why nobody can say that. */
export function emptyIn({ waiting, empty_in: empty, paused_since_ms: paused }: Queue): string {
  if (!waiting || !empty) return '–';
  if (empty.state === 'known') return duration(empty.ms);
  if (empty.state === 'stopped' && paused) return t('state.paused');
  return empty.state === 'unsteady' || empty.state === 'not_shrinking' || empty.state === 'stopped' ? t(`overview.${empty.state}`) : '–';
}
