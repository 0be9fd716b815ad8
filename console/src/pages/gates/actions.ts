// What can be done to gates, as entries of a menu.
import ClearGate from '../../actions/ClearGate.svelte';
import LimitGate from '../../actions/LimitGate.svelte';
import PauseGate from '../../actions/PauseGate.svelte';
import ResumeGate from '../../actions/ResumeGate.svelte';
import type { MenuItem } from '../../parts/Menu.svelte';
import { openDrawer } from '../../shell/drawer.svelte';
import { t } from '../../words/words.svelte';
import { what, type Target } from './gate';

type Run = MenuItem & { run: () => void };

const pause = (targets: Target[], done: () => void, time: string): Run => ({
  label: t('action.pause_for', { time }),
  run: () => openDrawer(t('pause.title', { queue: what(targets) }), PauseGate, { targets, time, done }),
});
const resume = (targets: Target[], done: () => void): Run => ({
  label: t('action.resume'),
  run: () => openDrawer(t('resume.title', { queue: what(targets) }), ResumeGate, { targets, done }),
});
const limit = (targets: Target[], done: () => void, label: string, breaker = false): Run => ({
  label,
  run: () => openDrawer(t('limit.title', { what: what(targets) }), LimitGate, { targets, breaker, done }),
});

/** What can be done to all of these. */
export function gateActions(targets: Target[], done: () => void): Run[] {
  const paused = targets.filter((target) => target.state === 'paused');
  const set = targets.filter((target) => target.source === 'command');
  return [
    ...(paused.length ? [resume(paused, done)] : []),
    ...(paused.length < targets.length ? [pause(targets, done, '15m'), pause(targets, done, '1h')] : []),
    limit(targets, done, t('action.limit_to')),
    ...(targets.length === 1 ? [limit(targets, done, t('action.breaker'), true)] : []),
    ...(set.length ? [{ label: t('action.clear'), danger: true, run: () => openDrawer(t('clear.title', { what: what(set) }), ClearGate, { targets: set, done }) }] : []),
  ];
}

/** What helps most with a gate: opening it if it is shut, raising its limits if jobs wait for it. */
export function primary(target: Target, done: () => void): Run | undefined {
  if (target.state === 'paused') return resume([target], done);
  const isLimited = target.concurrency || target.rate;
  return target.waiting && isLimited ? limit([target], done, t('action.raise')) : undefined;
}
