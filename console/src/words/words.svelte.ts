// The language of the console. Components call `t`, which changes with it.
import { en, type Key } from './en';

export type { Key };
export type Language = 'en' | 'zh-CN';
export type Values = Record<string, string | number>;

/** The catalogues. Only the chosen one is loaded, besides English. */
export const LANGUAGES: Record<Language, { name: string; load: () => Promise<Record<Key, string>> }> = {
  en: { name: 'English', load: async () => en },
  'zh-CN': { name: '简体中文', load: async () => (await import('./zh-CN')).zh },
};

const KEPT = 'streamfleet.language';

class Words {
  language = $state<Language>('en');
  #texts = $state.raw<Record<Key, string>>(en);

  /** Takes the language that was chosen, or that of the browser. */
  async begin(): Promise<void> {
    const kept = localStorage.getItem(KEPT);
    const wanted = kept ?? (navigator.languages.some((tag) => /^zh\b/i.test(tag)) ? 'zh-CN' : 'en');
    await this.#use(wanted === 'zh-CN' ? 'zh-CN' : 'en');
  }

  async choose(language: Language): Promise<void> {
    localStorage.setItem(KEPT, language);
    await this.#use(language);
  }

  async #use(language: Language): Promise<void> {
    this.#texts = await LANGUAGES[language].load();
    this.language = language;
    document.documentElement.lang = language;
  }

  t = (key: Key, values: Values = {}): string => fill(this.#texts[key], values);

  /** The text of a key that is made of parts, such as `incident.` and a kind; the last part if there is none. */
  of = (prefix: string, name: string, values: Values = {}): string => {
    const text = (this.#texts as Record<string, string | undefined>)[`${prefix}.${name}`];
    return text === undefined ? name : fill(text, values);
  };
}

/** Characters that are written from right to left, or turn the order of others. */
const TURNS = /[\u0590-\u08ff\u200f\u202a-\u202e\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** A value as it stands in a text. Whatever somebody has for a name, the text around it keeps its order. */
function isolated(value: string | number): string {
  // One of these would end the isolation too early or too late.
  const text = String(value).replace(/[\u2066-\u2069]/g, '');
  // Svelte warns of these two where they stand in a text.
  return TURNS.test(text) ? String.fromCharCode(0x2068) + text + String.fromCharCode(0x2069) : text;
}

/** Puts values into a text, and chooses its form by `count`. */
export function fill(text: string, values: Values): string {
  const [one, many] = text.split('|');
  const form = many !== undefined && Number(String(values.count).replace(/\s/g, '')) !== 1 ? many : one!;
  return form.replace(/\{(\w+)\}/g, (whole, name: string) => isolated(values[name] ?? whole));
}

export const words = new Words();
export const t = words.t;
