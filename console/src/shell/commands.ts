// What the palette offers: pages, what is known by its name, jobs by their ids, and what this person may do.
import { taskTitle } from '../actions/ChangeTask.svelte';
import type { IconName } from '../parts/Icon.svelte';
import { t, words } from '../words/words.svelte';
import { fit, waysToFind } from './fit';
import { help } from './help.svelte';
import { known } from './known.svelte';
import { mayOpen, PAGES } from './pages';
import { recent } from './recent';
import { router, to, toWith } from './router.svelte';
import { theme, type Theme } from './theme.svelte';

export interface Command {
  id: string;
  kind: string;
  icon: IconName;
  text: string;
  keys?: string;
  run: () => void;
}

const go = (id: string, kind: string, icon: IconName, text: string, href: string): Command => ({ id, kind, icon, text, run: () => router.go(href) });

function pages(): Command[] {
  const shown = PAGES.filter((page) => page.nav && mayOpen(page));
  return shown.map((page) => ({ ...go(`page ${page.path}`, t('palette.page'), page.nav!.icon, t(page.nav!.label), to(...page.path.split('/').filter(Boolean))), keys: page.nav!.keys }));
}

function things(): Command[] {
  const { queue = [], worker = [], task = [], incident = [], gate = [], types = [] } = known.things;
  return [
    ...queue.map(({ queue }) => go(`queue ${queue}`, t('palette.queue'), 'queue', queue, to('queues', queue))),
    ...types.map((type) => go(`type ${type}`, t('palette.type'), 'job', type, toWith(['jobs'], { type }))),
    ...gate.map(({ queue, gate }) => go(`gate ${queue} ${gate}`, t('palette.gate'), 'gate', `${queue} · ${gate}`, toWith(['gates'], { queue }))),
    ...worker.map(({ consumer }) => go(`worker ${consumer}`, t('palette.worker'), 'worker', consumer, to('workers', consumer))),
    ...task.map((each) => go(`task ${each.id}`, t('palette.task'), 'task', `${taskTitle(each)} · ${each.id}`, to('queues', each.queue, 'tasks', each.id))),
    ...incident.map((each) => {
      const text = [words.of('incident', each.kind), each.queue, each.type].filter(Boolean).join(' · ');
      return go(`incident ${each.id}`, t('palette.incident'), 'incident', text, to('incidents', each.id));
    }),
    ...queue.map(({ queue }) => go(`history ${queue}`, t('palette.page'), 'history', t('palette.history', { queue }), to('queues', queue, 'history'))),
  ];
}

function lately(): Command[] {
  const others = recent().filter((segments) => to(...segments) !== router.path);
  return others.slice(0, 6).map((segments) => go(`recent ${segments.join('/')}`, t('palette.recent'), 'history', segments.slice(segments[0] === 'queues' ? 1 : 0).join(' · '), to(...segments)));
}

function actions(): Command[] {
  return known.offers.map((offer, nth) => ({ id: `action ${nth} ${offer.title}`, kind: t(`palette.${offer.about}`), icon: offer.icon, text: `${offer.title}…`, run: offer.open }));
}

function preferences(): Command[] {
  const themes: Theme[] = ['light', 'dark', 'system'];
  const keys: Command = { id: 'help', kind: t('palette.action'), icon: 'keyboard', text: t('help.title'), keys: '?', run: () => (help.isOpen = true) };
  const choices = themes.map((each): Command => ({ id: `theme ${each}`, kind: t('person.theme'), icon: 'more', text: `${t('person.theme')}: ${t(`theme.${each}`)}`, run: () => theme.choose(each) }));
  return [keys, ...choices];
}

/** Everything that is offered while nothing is typed comes first. */
export const everything = (): Command[] => [...pages(), ...things(), ...actions(), ...preferences()];

/** The commands that fit, the best first, and where the text could be the id of a job. */
export function search(typed: string, most: number): Command[] {
  const text = typed.trim();
  const all = everything();
  if (!text) return [...lately(), ...all].slice(0, most);
  const jobs = known.jobs.map(({ queue, id, type, state }) => go(`job ${queue} ${id}`, words.of('state', state), 'job', `${id} · ${queue} · ${type}`, to('queues', queue, 'jobs', id)));
  const rated = all.flatMap((command) => {
    const how = fit(command.text, command.kind, text);
    return how === undefined ? [] : [{ command, how }];
  });
  rated.sort((one, other) => one.how - other.how);
  const finds = {
    id: go('find id', t('nav.jobs'), 'search', t('palette.find_id', { text }), toWith(['jobs'], { id_prefix: text })),
    text: go('find text', t('nav.jobs'), 'search', t('palette.find_text', { text }), toWith(['jobs'], { text })),
  };
  const find = waysToFind(text).map((way) => finds[way]);
  return [...jobs, ...rated.slice(0, most - jobs.length - find.length).map(({ command }) => command), ...find];
}
