// Where the values of a JSON text stand, so that what is wrong with one of them can be shown there.

/** A part of a text. */
export interface Place {
  from: number;
  to: number;
}

/** Why a text is no JSON; undefined if it is, or if it is empty. */
export function wrongWith(text: string): string | undefined {
  if (!text.trim()) return undefined;
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Where the value stands that a JSON pointer names, such as `/to/0`. What is missing is looked for in what would have it. */
export function placeOf(text: string, pointer: string): Place | undefined {
  if (wrongWith(text) !== undefined || !text.trim()) return undefined;
  const keys = pointer.split('/').slice(1).map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
  const reader = new Reader(text);
  return reader.find(keys) ?? reader.find(keys.slice(0, -1));
}

/** Walks through a valid text, and keeps what it passes on its way. */
class Reader {
  #at = 0;

  constructor(private readonly text: string) {}

  find(keys: string[]): Place | undefined {
    this.#at = 0;
    return this.#value(keys);
  }

  #blank(): void {
    while (/\s/.test(this.text[this.#at] ?? '')) this.#at += 1;
  }

  /** Reads a value. Returns the place of what the keys name in it. */
  #value(keys: string[] | undefined): Place | undefined {
    this.#blank();
    const from = this.#at;
    const sign = this.text[from];
    const found = sign === '{' || sign === '[' ? this.#members(sign === '{', keys) : this.#plain();
    return keys?.length === 0 ? { from, to: this.#at } : found;
  }

  #plain(): undefined {
    const token = /"(?:[^"\\]|\\.)*"|[^\s,\]}]+/y;
    token.lastIndex = this.#at;
    this.#at += token.exec(this.text)?.[0].length ?? 1;
  }

  #members(isObject: boolean, keys: string[] | undefined): Place | undefined {
    let found: Place | undefined;
    this.#at += 1;
    for (let nth = 0; ; nth += 1) {
      this.#blank();
      if (/[\]}]/.test(this.text[this.#at] ?? ']')) break;
      let name = String(nth);
      if (isObject) {
        const from = this.#at;
        this.#plain();
        name = JSON.parse(this.text.slice(from, this.#at)) as string;
        this.#blank();
        this.#at += 1;
      }
      const inner = this.#value(keys && keys[0] === name && keys.length > 0 ? keys.slice(1) : undefined);
      found ??= inner;
      this.#blank();
      if (this.text[this.#at] === ',') this.#at += 1;
    }
    this.#at += 1;
    return found;
  }
}
