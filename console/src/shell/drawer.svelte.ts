// The drawer at the right, which asks about an action while the list stays in sight. One is open at most.
import type { Component } from 'svelte';

interface Opened {
  title: string;
  // A component takes props of its own; `open` checks them.
  body: Component<Record<string, unknown>>;
  props: Record<string, unknown>;
}

export const drawer = $state<{ opened?: Opened }>({});

/** Opens the drawer with a component, which calls `closeDrawer` when it is done. */
export function openDrawer<P extends Record<string, unknown>>(title: string, body: Component<P>, props: P): void {
  drawer.opened = { title, body: body as unknown as Opened['body'], props };
}

export function closeDrawer(): void {
  drawer.opened = undefined;
}
