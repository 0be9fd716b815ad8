// How well something fits what was typed.

/** How well a command fits what was typed: the lower the better; undefined if it does not. */
export function fit(text: string, kind: string, typed: string): number | undefined {
  const [line, wanted] = [text.toLowerCase(), typed.toLowerCase()];
  const parts = wanted.split(/\s+/).filter(Boolean);
  const whole = `${line} ${kind.toLowerCase()}`;
  if (!parts.every((part) => whole.includes(part))) return undefined;
  if (line === wanted) return 0;
  if (line.startsWith(wanted)) return 1;
  return parts.every((part) => new RegExp(`(^|[^\\p{L}\\p{N}])${part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}`, 'u').test(whole)) ? 2 : 3;
}

/** How jobs are looked for by a text, the likelier way first: an address stands in payloads, and no id has spaces. */
export function waysToFind(text: string): ('id' | 'text')[] {
  if (/\s/.test(text)) return ['text'];
  return /^[^@]+@[^@]+\.[^@]+$/.test(text) ? ['text', 'id'] : ['id', 'text'];
}
