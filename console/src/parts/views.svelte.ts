// Filters that a person has saved under a name, in this browser, for one list. Another person does not see them.
import { session } from '../api/session.svelte';

export interface View {
  name: string;
  query: string;
}

export class Views {
  all = $state<View[]>([]);

  constructor(private readonly list: string) {
    try {
      this.all = JSON.parse(localStorage.getItem(this.#key) ?? '[]') as View[];
    } catch {
      // What another version kept is given up.
    }
  }

  get #key(): string {
    return `streamfleet.views.${this.list}.${session.person?.name ?? ''}`;
  }

  save(name: string, query: string): void {
    this.all = [...this.all.filter((view) => view.name !== name), { name, query }];
    this.#keep();
  }

  forget(name: string): void {
    this.all = this.all.filter((view) => view.name !== name);
    this.#keep();
  }

  #keep(): void {
    localStorage.setItem(this.#key, JSON.stringify(this.all));
  }
}
