// What an action led to, in a corner, for a while, with the way back where there is one.
export interface Toast {
  id: number;
  text: string;
  tone: 'good' | 'bad';
  undo?: () => Promise<unknown>;
  /** What was done cannot be taken back, but the rest of it can be stopped. */
  stop?: () => Promise<unknown>;
}

/** How long a toast stays. One that can be undone stays longer. */
const STAYS_MS = 5000;
const UNDO_MS = 15_000;

let last = 0;
export const toasts = $state<Toast[]>([]);

/** Says what was done. `undo` takes it back, and `stop` keeps a task from going on. */
export function say(text: string, options: { tone?: Toast['tone']; undo?: Toast['undo']; stop?: Toast['stop'] } = {}): void {
  const id = ++last;
  toasts.push({ id, text, ...options, tone: options.tone ?? 'good' });
  if (options.tone !== 'bad') setTimeout(() => close(id), options.undo || options.stop ? UNDO_MS : STAYS_MS);
}

export function close(id: number): void {
  const nth = toasts.findIndex((toast) => toast.id === id);
  if (nth >= 0) toasts.splice(nth, 1);
}
