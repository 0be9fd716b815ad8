// Changes of all jobs that match, each by a task of one queue.
import { letterFlags } from '../../actions/letters';
import { api, Failure, ok, type Schemas, type Task } from '../../api/client';
import { selectionOf, type Filter } from '../../parts/filter';
import { command } from '../../parts/command';

export const ACTIONS = ['cancel', 'run-now', 'move'] as const;
export type BulkAction = (typeof ACTIONS)[number];
export type Plan = Schemas['BulkReport'];

/** The states that each works on. */
const WORKS_ON: Record<BulkAction, string[]> = {
  cancel: ['waiting', 'running', 'scheduled', 'retrying'],
  'run-now': ['scheduled', 'retrying'],
  move: ['waiting', 'scheduled', 'retrying'],
};

/** The states of a page that a change works on. `undefined` if it works on none of those that the page names. */
export function statesOf(action: BulkAction, filters: Filter[]): string[] | undefined {
  const named = filters.filter(({ name }) => name === 'state').flatMap(({ value }) => value.split(','));
  const states = named.filter((state) => WORKS_ON[action].includes(state));
  return named.length && !states.length ? undefined : states;
}

/** The body of a change: the filters of a page, without its queues. */
export function bodyOf(action: BulkAction, filters: Filter[], to?: string): Schemas['Bulk'] {
  const filter = selectionOf(filters);
  const state = statesOf(action, filters) ?? [];
  return { filter: filter as Schemas['Selection'], all: Object.keys(filter).length === 0, state, to, confirm: false, dry_run: false, reason: '' };
}

function post(action: BulkAction, queue: string, body: Schemas['Bulk'], signal?: AbortSignal) {
  const init = { params: { path: { queue } }, body, signal };
  if (action === 'cancel') return ok(api.POST('/api/v1/queues/{queue}/bulk/cancel', init));
  if (action === 'run-now') return ok(api.POST('/api/v1/queues/{queue}/bulk/run-now', init));
  return ok(api.POST('/api/v1/queues/{queue}/bulk/move', init));
}

/** Counts what would be changed in each queue, one queue after the other: only a few plans may be made at a time. */
export async function plan(action: BulkAction, queues: string[], body: Schemas['Bulk'], signal: AbortSignal): Promise<Plan[]> {
  const plans: Plan[] = [];
  for (const queue of queues) {
    const made = await post(action, queue, { ...body, dry_run: true, confirm: true }, signal);
    if ('planned' in made) plans.push(made as Plan);
  }
  return plans;
}

/** Begins the task of each queue in which something matches. */
export async function begin(action: BulkAction, queues: string[], body: Schemas['Bulk']): Promise<Task[]> {
  const tasks: Task[] = [];
  for (const queue of queues) {
    const begun = await post(action, queue, body);
    if ('id' in begun) tasks.push(begun as Task);
  }
  return tasks;
}

/** Stops tasks, and takes back what they have moved. One that is over cannot be stopped any more. */
export async function takeBack(tasks: Task[], isMove: boolean, reason: string): Promise<void> {
  for (const { queue, id: task } of tasks) {
    const init = { params: { path: { queue, task } }, body: { reason } };
    await api.POST('/api/v1/queues/{queue}/tasks/{task}/stop', init).catch((error: unknown) => {
      if (!isMove || !(error instanceof Failure) || error.status !== 409) throw error;
    });
    if (isMove) await api.POST('/api/v1/queues/{queue}/tasks/{task}/undo', init);
  }
}

/** The commands that do the same, one for each queue. */
export function commandsOf(action: BulkAction, queues: string[], filters: Filter[], more: { to?: string; rate?: string; reason: string }): string {
  const states = statesOf(action, filters) ?? [];
  const flags = letterFlags(selectionOf(filters));
  const all = Object.keys(flags).length ? undefined : (true as const);
  return queues.map((queue) => command(action, { queue, state: states.join(','), all, ...flags, ...more, yes: true })).join('\n');
}
