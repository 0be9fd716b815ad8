// The pages and their addresses. A page is a component in its own file, loaded when it is opened; it gets the named segments
// of its address as props.
import type { Component } from 'svelte';
import type { Role } from '../api/client';
import { session } from '../api/session.svelte';
import type { IconName } from '../parts/Icon.svelte';
import type { Key } from '../words/words.svelte';

export interface Page {
  /** Segments of the address. `:queue` is any segment, passed as the prop `queue`. */
  path: string;
  load: () => Promise<{ default: Component<Record<string, string>> }>;
  /** The place in the navigation; pages without one are reached by links. */
  nav?: { label: Key; icon: IconName; group?: Key; keys: string };
  /** Who may open it: those with this role on some queue … */
  role?: Role;
  /** … or on every queue, if it is about more than queues. */
  isOfAll?: boolean;
  /** The `path` of the page that the navigation marks meanwhile. */
  under?: string;
}

// A page declares the props that its path names, so each component has another type.
const page = (load: () => Promise<{ default: unknown }>) => load as Page['load'];

export const PAGES: Page[] = [
  { path: '', load: page(() => import('../pages/overview/Overview.svelte')), nav: { label: 'nav.overview', icon: 'overview', keys: 'g o' } },
  { path: 'incidents', load: page(() => import('../pages/incidents/Incidents.svelte')), nav: { label: 'nav.incidents', icon: 'incident', keys: 'g i' } },
  { path: 'jobs', load: page(() => import('../pages/jobs/Jobs.svelte')), nav: { label: 'nav.jobs', icon: 'job', group: 'nav.operate', keys: 'g j' } },
  { path: 'running', load: page(() => import('../pages/running/Running.svelte')), nav: { label: 'nav.running', icon: 'running', group: 'nav.operate', keys: 'g r' } },
  { path: 'dead', load: page(() => import('../pages/dead/Dead.svelte')), nav: { label: 'nav.dead', icon: 'dead', group: 'nav.operate', keys: 'g d' } },
  { path: 'decisions', load: page(() => import('../pages/decisions/Decisions.svelte')), nav: { label: 'nav.decisions', icon: 'decision', group: 'nav.operate', keys: 'g e' } },
  { path: 'tasks', load: page(() => import('../pages/tasks/Tasks.svelte')), nav: { label: 'nav.tasks', icon: 'task', group: 'nav.operate', keys: 'g t' } },
  { path: 'gates', load: page(() => import('../pages/gates/Gates.svelte')), nav: { label: 'nav.gates', icon: 'gate', group: 'nav.operate', keys: 'g g' } },
  { path: 'recurring', load: page(() => import('../pages/recurring/Recurring.svelte')), nav: { label: 'nav.cron', icon: 'cron', group: 'nav.fleet', keys: 'g c' } },
  { path: 'workers', load: page(() => import('../pages/workers/Workers.svelte')), nav: { label: 'nav.workers', icon: 'worker', group: 'nav.fleet', keys: 'g w' } },
  { path: 'redis', load: page(() => import('../pages/redis/Redis.svelte')), nav: { label: 'nav.redis', icon: 'redis', group: 'nav.fleet', keys: 'g m' }, role: 'viewer', isOfAll: true },
  { path: 'audit', load: page(() => import('../pages/audit/Audit.svelte')), nav: { label: 'nav.audit', icon: 'audit', group: 'nav.fleet', keys: 'g a' } },
  { path: 'submit', load: page(() => import('../pages/submit/Submit.svelte')), nav: { label: 'nav.submit', icon: 'submit', group: 'nav.fleet', keys: 'g s' }, role: 'submitter' },
  { path: 'queues/:queue', load: page(() => import('../pages/queue/Queue.svelte')), under: '' },
  { path: 'queues/:queue/history', load: page(() => import('../pages/queue/Queue.svelte')), under: '' },
  { path: 'queues/:queue/history/:job', load: page(() => import('../pages/history/Past.svelte')), under: 'jobs' },
  { path: 'queues/:queue/jobs/:job', load: page(() => import('../pages/job/Job.svelte')), under: 'jobs' },
  { path: 'queues/:queue/dead', load: page(() => import('../pages/dead/Dead.svelte')), under: 'dead' },
  { path: 'queues/:queue/dead/groups/:group', load: page(() => import('../pages/dead/Group.svelte')), under: 'dead' },
  { path: 'queues/:queue/dead/:letter', load: page(() => import('../pages/dead/Letter.svelte')), under: 'dead' },
  { path: 'queues/:queue/tasks/:task', load: page(() => import('../pages/tasks/Task.svelte')), under: 'tasks' },
  { path: 'incidents/:incident', load: page(() => import('../pages/incidents/Incident.svelte')), under: 'incidents' },
  { path: 'alerts', load: page(() => import('../pages/incidents/Alerts.svelte')), role: 'operator', isOfAll: true, under: 'incidents' },
  { path: 'workers/:worker', load: page(() => import('../pages/workers/Worker.svelte')), under: 'workers' },
  { path: 'jobs/:job', load: page(() => import('../pages/job/Find.svelte')), under: 'jobs' },
];

/** Whether this person may open a page. */
export const mayOpen = ({ role, isOfAll }: Page): boolean => !role || (isOfAll ? session.may(role) : session.mayAnywhere(role));

/** Addresses of the earlier console, which stand in bookmarks and messages, each with the page that took its place. */
export const MOVED: [from: string, to: string][] = [
  ['campaigns', 'tasks'],
  ['incidents/:incident/ack', 'incidents/:incident'],
  ['queues/:queue/campaigns', 'tasks'],
  ['queues/:queue/campaigns/plan', 'queues/:queue/dead'],
  ['queues/:queue/campaigns/:task', 'queues/:queue/tasks/:task'],
  ['queues/:queue/campaigns/:task/:action', 'queues/:queue/tasks/:task'],
  ['queues/:queue/dead-drop', 'queues/:queue/dead'],
  ['queues/:queue/dead/:letter/:action', 'queues/:queue/dead/:letter'],
  ['queues/:queue/jobs/:job/:action', 'queues/:queue/jobs/:job'],
  ['queues/:queue/jobs/:job/steps/:step/decide', 'queues/:queue/jobs/:job'],
  ['queues/:queue/gates/:action', 'gates'],
  ['queues/:queue/recurring/:name', 'recurring'],
  ['queues/:queue/bulk/:action', 'jobs'],
];

/** What the segments of an address name, if it has this path. */
function named(path: string, segments: string[]): Record<string, string> | undefined {
  const parts = path === '' ? [] : path.split('/');
  if (parts.length !== segments.length) return;
  if (!parts.every((part, nth) => part.startsWith(':') || part === segments[nth])) return;
  return Object.fromEntries(parts.flatMap((part, nth) => (part.startsWith(':') ? [[part.slice(1), segments[nth]!]] : [])));
}

/** Finds the page of an address, with what its segments name. Pages that stand first win. */
export function match(segments: string[], query = new URLSearchParams()): { page: Page; named: Record<string, string> } | undefined {
  // The earlier console had the groups of dead letters in queries.
  const group = query.size === 1 && query.get('group');
  if (group && named('queues/:queue/dead', segments)) return match([...segments, 'groups', group]);
  const paths = [...PAGES.map(({ path }) => [path, path] as const), ...MOVED];
  for (const [path, to] of paths) {
    const found = named(path, segments);
    if (found) return { page: PAGES.find((page) => page.path === to)!, named: found };
  }
}
