// JSON without loss: JavaScript rounds numbers of more than 15 digits, which payloads have as ids.

/** Stands before the digits of a number that is kept as a text. */
const MARK = '\u0000';

/** Parses JSON. A number that JavaScript would round becomes a marked text, which `written` writes as a number again. */
export function exact(json: string): unknown {
  return JSON.parse(json.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (token) => (token[0] !== '"' && token.length > 15 ? `"\\u0000${token}"` : token)));
}

/** Writes a value of `exact` as JSON in lines, or on one line. */
export function written(value: unknown, indent = 2): string {
  return (JSON.stringify(value, null, indent) ?? 'null').replace(/"\\u0000(-?\d[\d.eE+-]*)"/g, '$1');
}

/** What a number that was kept as a text is shown as. */
export function plain(value: unknown): string {
  return typeof value === 'string' && value.startsWith(MARK) ? value.slice(1) : String(value);
}
