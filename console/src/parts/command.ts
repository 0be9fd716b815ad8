// Commands as a person types them in a shell.

/** Characters that a terminal would act on when a command is pasted. */
export const CONTROLS = /[\u0000-\u001f\u007f-\u009f]/g;

/** The bytes of a character as escapes. */
export const bytesOf = (text: string) => [...new TextEncoder().encode(text)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('');

/** Writes a word so that a shell takes it as it is. */
export function word(text: string): string {
  if (text.search(CONTROLS) >= 0) return `$'${text.replace(/['\\]/g, '\\$&').replace(CONTROLS, bytesOf)}'`;
  return /^[\w.,:=@/+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

type Value = string | number | true | undefined | null;

/** A command of `streamfleet`. Flags without a value are left out; `true` is a flag alone, and a list is the flag for each. */
export function command(name: string, flags: Record<string, Value | string[]> = {}): string {
  const all = Object.entries(flags).flatMap(([flag, value]) => (Array.isArray(value) ? value : [value]).map((each) => [flag, each] as const));
  const given = all.filter(([, value]) => value !== undefined && value !== null && value !== '');
  return ['streamfleet', name, ...given.map(([flag, value]) => (value === true ? `--${flag}` : `--${flag} ${word(String(value))}`))].join(' ');
}
