// Commands as a person types them in a shell.

/** Characters that a terminal acts on when a command is pasted, and those that are not seen or change the order of what is. */
export const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** The bytes of a character as escapes. */
export const bytesOf = (text: string) => [...new TextEncoder().encode(text)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('');

/** Writes a word so that a shell takes it as it is. A shell without `$'…'`, such as dash, reads another word, but never a command. */
export function word(text: string): string {
  if (text.search(CONTROLS) >= 0) return `$'${text.replace(/['\\]/g, bytesOf).replace(CONTROLS, bytesOf)}'`;
  return /^[\w.,:=@/+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

type Value = string | number | true | undefined | null;

function flag(name: string, value: string | number | true): string {
  if (value === true) return `--${name}`;
  // What begins like a flag would be taken for one.
  return `--${name}${String(value).startsWith('-') ? '=' : ' '}${word(String(value))}`;
}

/**
 * A command of `streamfleet`. Flags without a value are left out; `true` is a flag alone, and a list is the flag for each. What the
 * command is about comes last, after `--`: an id such as `--all` is then no flag.
 */
export function command(name: string, flags: Record<string, Value | string[]> = {}, about: string[] = []): string {
  const all = Object.entries(flags).flatMap(([flag, value]) => (Array.isArray(value) ? value : [value]).map((each) => [flag, each] as const));
  const given = all.flatMap(([name, value]) => (value === undefined || value === null || value === '' ? [] : [flag(name, value)]));
  return ['streamfleet', name, ...given, ...(about.length ? ['--', ...about.map(word)] : [])].join(' ');
}
