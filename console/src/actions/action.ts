// What an action says about itself, so that the palette can offer it wherever it makes sense.
import type { Incident, Queue, Schemas, Task } from '../api/client';
import type { IconName } from '../parts/Icon.svelte';

/** What actions are about. */
export interface Subjects {
  queue: Queue;
  worker: Schemas['Worker'];
  task: Task;
  incident: Incident;
  gate: Schemas['QueueGate'];
  cron: Schemas['RecurringJob'];
  sink: Schemas['AlertSink'];
}

interface On<Subject> {
  icon: IconName;
  /** The title of the drawer, and what the palette offers. */
  title: (subject: Subject) => string;
  /** Whether it makes sense, and this person may do it. */
  fits: (subject: Subject) => boolean;
  /** The props of the component. */
  props: (subject: Subject) => Record<string, unknown>;
}

export type Action = On<never> & { about: keyof Subjects };

/** An action. Its component exports it in a list, as `actions`. */
export function action<Name extends keyof Subjects>(about: Name, on: On<Subjects[Name]>): Action {
  return { about, ...on };
}
