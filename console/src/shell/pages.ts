// The pages and their addresses. A page is a component in its own file, loaded when it is opened; it gets the named segments
// of its address as props.
import type { Component } from 'svelte';
import type { Role } from '../api/client';
import type { IconName } from '../parts/Icon.svelte';
import type { Key } from '../words/words.svelte';

export interface Page {
  /** Segments of the address. `:queue` is any segment, passed as the prop `queue`. */
  path: string;
  load: () => Promise<{ default: Component<Record<string, string>> }>;
  /** The place in the navigation; pages without one are reached by links. */
  nav?: { label: Key; icon: IconName; group?: Key; keys: string };
  /** Who may open it. */
  role?: Role;
  /** The `path` of the page that the navigation marks meanwhile. */
  under?: string;
}

// A page declares the props that its path names, so each component has another type.
const page = (load: () => Promise<{ default: unknown }>) => load as Page['load'];
const coming = page(() => import('../pages/coming/Coming.svelte'));

export const PAGES: Page[] = [
  { path: '', load: page(() => import('../pages/overview/Overview.svelte')), nav: { label: 'nav.overview', icon: 'overview', keys: 'g o' } },
  { path: 'incidents', load: coming, nav: { label: 'nav.incidents', icon: 'incident', keys: 'g i' } },
  { path: 'jobs', load: page(() => import('../pages/jobs/Jobs.svelte')), nav: { label: 'nav.jobs', icon: 'job', group: 'nav.operate', keys: 'g j' } },
  { path: 'running', load: coming, nav: { label: 'nav.running', icon: 'running', group: 'nav.operate', keys: 'g r' } },
  { path: 'dead', load: page(() => import('../pages/dead/Dead.svelte')), nav: { label: 'nav.dead', icon: 'dead', group: 'nav.operate', keys: 'g d' } },
  { path: 'decisions', load: page(() => import('../pages/decisions/Decisions.svelte')), nav: { label: 'nav.decisions', icon: 'decision', group: 'nav.operate', keys: 'g e' } },
  { path: 'tasks', load: coming, nav: { label: 'nav.tasks', icon: 'task', group: 'nav.operate', keys: 'g t' } },
  { path: 'gates', load: coming, nav: { label: 'nav.gates', icon: 'gate', group: 'nav.operate', keys: 'g g' } },
  { path: 'recurring', load: coming, nav: { label: 'nav.cron', icon: 'cron', group: 'nav.fleet', keys: 'g c' } },
  { path: 'workers', load: coming, nav: { label: 'nav.workers', icon: 'worker', group: 'nav.fleet', keys: 'g w' } },
  { path: 'audit', load: coming, nav: { label: 'nav.audit', icon: 'audit', group: 'nav.fleet', keys: 'g a' } },
  { path: 'submit', load: coming, nav: { label: 'nav.submit', icon: 'submit', group: 'nav.fleet', keys: 'g s' }, role: 'submitter' },
  { path: 'queues/:queue', load: coming, under: '' },
  { path: 'queues/:queue/jobs/:job', load: coming, under: 'jobs' },
  { path: 'queues/:queue/dead', load: page(() => import('../pages/dead/Dead.svelte')), under: 'dead' },
  { path: 'queues/:queue/dead/groups/:group', load: page(() => import('../pages/dead/Group.svelte')), under: 'dead' },
  { path: 'queues/:queue/dead/:letter', load: page(() => import('../pages/dead/Letter.svelte')), under: 'dead' },
  { path: 'queues/:queue/tasks/:task', load: coming, under: 'tasks' },
  { path: 'incidents/:incident', load: coming, under: 'incidents' },
];

/** Finds the page of an address, with what its segments name. Pages that stand first win. */
export function match(segments: string[]): { page: Page; named: Record<string, string> } | undefined {
  for (const page of PAGES) {
    const parts = page.path === '' ? [] : page.path.split('/');
    if (parts.length !== segments.length) continue;
    if (!parts.every((part, nth) => part.startsWith(':') || part === segments[nth])) continue;
    const named = parts.flatMap((part, nth) => (part.startsWith(':') ? [[part.slice(1), segments[nth]!]] : []));
    return { page, named: Object.fromEntries(named) as Record<string, string> };
  }
}
