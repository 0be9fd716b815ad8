'use strict';

// MessagePack as JSON, as the worker gives it to handlers.

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
/** The worker reads no deeper MessagePack. */
const MOST_DEPTH = 64;
const WORDS = { 0xc0: 'null', 0xc2: 'false', 0xc3: 'true' };
/** What has a length, by its first byte, and how many bytes the length has. */
const LENGTHS = { 0xd9: ['text', 1], 0xda: ['text', 2], 0xdb: ['text', 4], 0xdc: ['array', 2], 0xdd: ['array', 4], 0xde: ['map', 2], 0xdf: ['map', 4] };

/** MessagePack as JSON, as the worker gives it to handlers. It throws if JSON would lose something: bytes, keys that are not texts, NaN. */
function jsonOfMessagePack(bytes) {
  let at = 0;
  const take = (size) => {
    if (size > bytes.length - at) throw new RangeError('the MessagePack is cut off');
    at += size;
    return bytes.subarray(at - size, at);
  };
  const finite = (value) => {
    if (!Number.isFinite(value)) throw new RangeError('JSON has no such number');
    return JSON.stringify(value);
  };
  const numbers = {
    0xca: () => finite(take(4).readFloatBE()),
    0xcb: () => finite(take(8).readDoubleBE()),
    0xcc: () => String(take(1).readUInt8()),
    0xcd: () => String(take(2).readUInt16BE()),
    0xce: () => String(take(4).readUInt32BE()),
    0xcf: () => String(take(8).readBigUInt64BE()),
    0xd0: () => String(take(1).readInt8()),
    0xd1: () => String(take(2).readInt16BE()),
    0xd2: () => String(take(4).readInt32BE()),
    0xd3: () => String(take(8).readBigInt64BE()),
  };
  const kindOf = (first) => {
    if (LENGTHS[first] !== undefined) return [LENGTHS[first][0], take(LENGTHS[first][1]).readUIntBE(0, LENGTHS[first][1])];
    if (first <= 0x8f) return ['map', first & 15];
    if (first <= 0x9f) return ['array', first & 15];
    if (first <= 0xbf) return ['text', first & 31];
    throw new RangeError('JSON has no such value');
  };
  const value = (depth) => {
    const first = take(1)[0];
    if (WORDS[first] !== undefined) return WORDS[first];
    if (first <= 0x7f || first >= 0xe0) return String(first <= 0x7f ? first : first - 256);
    if (numbers[first] !== undefined) return numbers[first]();
    const [kind, length] = kindOf(first);
    // Each value has a byte at least, so a hostile length takes no memory.
    if (length > bytes.length - at) throw new RangeError('the MessagePack is cut off');
    if (kind === 'text') return JSON.stringify(UTF8.decode(take(length)));
    if (depth >= MOST_DEPTH) throw new RangeError('it is nested too deep');
    const parts = Array.from({ length }, () => {
      const part = value(depth + 1);
      if (kind === 'array') return part;
      if (!part.startsWith('"')) throw new RangeError('a key is not a text');
      return `${part}:${value(depth + 1)}`;
    });
    return kind === 'array' ? `[${parts.join(',')}]` : `{${parts.join(',')}}`;
  };
  const json = bytes.length === 0 ? 'null' : value(0);
  if (at !== bytes.length) throw new RangeError('bytes follow the MessagePack');
  return json;
}

module.exports = { UTF8, jsonOfMessagePack };
