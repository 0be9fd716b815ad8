// All actions, for the palette, which loads this with its first opening.
import type { Component } from 'svelte';
import { openDrawer } from '../shell/drawer.svelte';
import type { IconName } from '../parts/Icon.svelte';
import type { Action, Subjects } from './action';

/** What is known at present that one may do something to. */
export type Known = { [Name in keyof Subjects]?: Subjects[Name][] };

/** What people look for first comes first. */
const ORDER: (keyof Subjects)[] = ['queue', 'incident', 'task', 'worker', 'gate', 'cron', 'sink'];

export interface Offer {
  about: keyof Subjects;
  icon: IconName;
  title: string;
  open: () => void;
}

interface Module {
  default: Component<Record<string, unknown>>;
  actions?: Action[];
}

const modules = Object.values(import.meta.glob<Module>('./*.svelte', { eager: true }));

/** What this person may do to what is known. */
export function offers(known: Known): Offer[] {
  const all = modules.flatMap(({ default: body, actions = [] }) =>
    actions.flatMap((action) =>
      ((known[action.about] ?? []) as never[]).filter(action.fits).map((subject): Offer => {
        const title = action.title(subject);
        return { about: action.about, icon: action.icon, title, open: () => openDrawer(title, body, action.props(subject)) };
      }),
    ),
  );
  return all.sort((one, other) => ORDER.indexOf(one.about) - ORDER.indexOf(other.about));
}
