// Commands as a person types them in a shell.

/** Writes a word so that a shell takes it as it is. */
export function word(text: string): string {
  return /^[\w.,:=@/+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** A command of `streamfleet`. Flags without a value are left out; `true` is a flag alone. */
export function command(name: string, flags: Record<string, string | number | true | undefined | null> = {}): string {
  const given = Object.entries(flags).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return ['streamfleet', name, ...given.map(([flag, value]) => (value === true ? `--${flag}` : `--${flag} ${word(String(value))}`))].join(' ');
}
