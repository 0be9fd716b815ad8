'use strict';

// Payloads that are compressed, encrypted or stored apart: docs/codecs.md. The format is in docs/wire.md.

const { createCipheriv, createDecipheriv, createHash, randomBytes } = require('node:crypto');
const fs = require('node:fs');
const { inspect } = require('node:util');
const zlib = require('node:zlib');
const { DirectoryClaims, S3Claims } = require('./claims.js');
const { UTF8, jsonOfMessagePack } = require('./messagepack.js');

const HEADER = 'codec';
const MOST_HEADER_BYTES = 256;
const KEY_NAME = '[A-Za-z0-9][A-Za-z0-9._-]{0,63}';
const NAME = new RegExp(`^${KEY_NAME}$`);
const GRAMMAR = new RegExp(`^(json|msgpack|raw)(?=.)( gzip)?(?: aes-256-gcm;key=(${KEY_NAME}))?(?: claim;sha256=([0-9a-f]{64}))?$`);
const KEY_BYTES = 32;
const MOST_FILE_BYTES = 1024 * 1024;
const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** A payload cannot be encoded or decoded. A job is tried again then by the policy of its type: a key or an object may arrive. */
class CodecError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = 'CodecError';
  }
}

/** Reads a header; undefined if it breaks the grammar. */
function parsed(text) {
  const found = typeof text === 'string' && text.length <= MOST_HEADER_BYTES ? GRAMMAR.exec(text) : null;
  if (found === null) return undefined;
  const [, encoding, gzip, key, claim] = found;
  return { encoding, gzip: gzip !== undefined, key, claim };
}

/** A header up to the encryption, which the ciphertext is bound to. */
function sealedText({ encoding, gzip, key }) {
  return `${encoding}${gzip ? ' gzip' : ''}${key === undefined ? '' : ` aes-256-gcm;key=${key}`}`;
}

function headerText(header) {
  return `${sealedText(header)}${header.claim === undefined ? '' : ` claim;sha256=${header.claim}`}`;
}

/** What a ciphertext is bound to. */
function bound(type, header) {
  return Buffer.from(`${type}\n${sealedText(header)}`);
}

function sha256Of(bytes) {
  return createHash('sha256').update(bytes).digest('hex');
}

/**
 * Keys by their names. The first one encrypts; all decrypt, so that keys can be rotated. A file or a variable has `name:key` items that white
 * space or commas separate, each key in base64: `openssl rand -base64 32` makes one. In a file, a line that begins with # is a comment.
 */
class Keys {
  #keys = new Map();

  constructor(keys, place = 'keys') {
    for (const [name, key] of Symbol.iterator in keys ? keys : Object.entries(keys)) {
      if (typeof name !== 'string' || !NAME.test(name)) {
        throw new TypeError(`${place}: the name of a key has 1 to 64 letters, digits, '.', '_' and '-', and begins with a letter or digit`);
      }
      const size = key instanceof Uint8Array ? key.length : 0;
      if (size !== KEY_BYTES) throw new TypeError(`${place}: the key ${name} must have ${KEY_BYTES} bytes, not ${size}: openssl rand -base64 32`);
      if (this.#keys.has(name)) throw new TypeError(`${place}: there are two keys with the name ${name}`);
      this.#keys.set(name, Buffer.from(key));
    }
    if (this.#keys.size === 0) throw new TypeError(`${place} has no key: it must have name:key, with the key in base64`);
  }

  /** Reads the keys from a file. */
  static fromFile(file) {
    const size = fs.statSync(file).size;
    if (size > MOST_FILE_BYTES) throw new TypeError(`${file} has ${size} bytes; a file of keys has at most ${MOST_FILE_BYTES}`);
    return new Keys(items(fs.readFileSync(file, 'utf8').replace(/^\s*#.*$/gm, ''), String(file)), String(file));
  }

  /** Reads the keys from a variable of the environment. */
  static fromEnv(name) {
    const text = process.env[name];
    if (text === undefined) throw new TypeError(`the variable ${name} is not set: it must have the keys, as name:base64`);
    return new Keys(items(text, `the variable ${name}`), `the variable ${name}`);
  }

  /** The name of the key that encrypts. */
  get first() {
    return this.#keys.keys().next().value;
  }

  get(name) {
    return this.#keys.get(name);
  }
}

/** The names and keys of a text. No error shows a key. */
function items(text, place) {
  return text.split(/[\s,]+/).filter(Boolean).map((item, index) => {
    const at = item.indexOf(':');
    if (at < 0) throw new TypeError(`${place}: item ${index + 1} must be name:key, with the key in base64`);
    const data = item.slice(at + 1);
    const key = Buffer.from(data, 'base64');
    if (key.toString('base64') !== data) throw new TypeError(`${place}: the key of item ${index + 1} is not base64: openssl rand -base64 32`);
    return [item.slice(0, at), key];
  });
}

/** Decompresses one member of gzip, and never more than this many bytes. */
function inflated(bytes, most) {
  let inflating;
  try {
    inflating = zlib.gunzipSync(bytes, { maxOutputLength: most, info: true });
  } catch (error) {
    if (error.code === 'ERR_BUFFER_TOO_LARGE') throw new CodecError(`the decompressed payload has more than ${most} bytes`);
    if (error.code === 'Z_BUF_ERROR') throw new CodecError('the compressed payload is cut off');
    throw new CodecError(`the compressed payload is not gzip: ${error.message}`);
  }
  const { buffer, engine } = inflating;
  // Node also reads what follows the first member; the last one names only its own size.
  const isWhole = engine.bytesWritten === bytes.length && bytes.readUInt32LE(bytes.length - 4) === buffer.length % 2 ** 32;
  if (!isWhole) throw new CodecError('bytes follow the compressed payload');
  return buffer;
}

/** Adds what needs the rest of this package. */
module.exports = ({ InvalidSubmission, Retry, encodedPayload, fromJson }) => {
  /** What is done to payloads: they are compressed, then encrypted, then stored apart, as far as this says so. */
  class Codecs {
    #keys;
    #compress;
    #claims;
    #compressAbove;
    #claimAbove;
    #maxBytes;

    constructor({ keys, compress = false, claims, compressAbove = 1024, claimAbove = 256 * 1024, maxBytes = 64 * 1024 * 1024, ...others } = {}) {
      const [other] = Object.keys(others);
      if (other !== undefined) throw new TypeError(`Codecs has no option '${other}': use keys, compress, claims, compressAbove, claimAbove or maxBytes`);
      if (keys !== undefined && !(keys instanceof Keys)) throw new TypeError('keys must be Keys: Keys.fromFile(…), Keys.fromEnv(…) or new Keys({ name: bytes })');
      for (const [name, value] of Object.entries({ compressAbove, claimAbove, maxBytes: maxBytes - 1 })) {
        if (!Number.isSafeInteger(value) || value < 0) throw new TypeError(`${name} must be a whole number, and not negative`);
      }
      this.#keys = keys;
      this.#compress = compress;
      this.#claims = claims;
      this.#compressAbove = compressAbove;
      this.#claimAbove = claimAbove;
      this.#maxBytes = maxBytes;
    }

    /** A job with an encoded payload, as an object for what has no option `codecs`: Http, Cli and outbox. */
    async job(type, payload, options = {}) {
      const { bytes = Buffer.alloc(0), encoding } = encodedPayload(payload, options.encoding, Infinity);
      const [header, encoded] = await this.encodePayload(type, encoding, bytes);
      if (header === undefined) return { ...options, type, payload };
      checkNoHeader(Object.keys(options.headers ?? {}));
      if (options.uniqueMode === 'debounce') throw new InvalidSubmission('a debounce replaces the payload of a job, and not its header: it does not work with codecs');
      return { ...options, type, payload: encoded, encoding: 'raw', headers: { ...options.headers, [HEADER]: header } };
    }

    /** Resolves to the header, and to the bytes to send with the encoding raw. Without a header, nothing was done. */
    async encodePayload(type, encoding, payload) {
      const [header, bytes] = this.#sealed(type, encoding, payload);
      if (!this.#isClaimed(bytes)) return told(header, bytes, payload);
      header.claim = sha256Of(bytes);
      try {
        await this.#claims.put(header.claim, bytes);
      } catch (error) {
        throw new CodecError(`the store does not take the payload sha256 ${header.claim}, so nothing was sent: ${error.message}`, { cause: error });
      }
      return told(header, Buffer.alloc(0), payload);
    }

    /** The same at once, for payloads that are not stored apart. */
    encodePayloadNow(type, encoding, payload) {
      const [header, bytes] = this.#sealed(type, encoding, payload);
      if (this.#isClaimed(bytes)) throw new InvalidSubmission('the payload has to be stored apart, and this call cannot wait for that: use enqueue');
      return told(header, bytes, payload);
    }

    /** Resolves to the encoding of the plain payload, and to its bytes. `encoding` is what the job itself names. */
    async decodePayload(type, header, payload, encoding = 'raw') {
      const known = parsed(header);
      if (known === undefined) throw new CodecError(`the header ${HEADER} is not one that this version reads: ${inspect(String(header).slice(0, 100))}`);
      if (encoding !== 'raw') throw new CodecError(`the job has the header ${HEADER}, so its encoding must be raw, not ${String(encoding).slice(0, 20)}`);
      let bytes = known.claim === undefined ? payload : await this.#claimed(known.claim, payload);
      if (known.key !== undefined) bytes = this.#opened(type, known, bytes);
      if (known.gzip) bytes = inflated(bytes, this.#maxBytes);
      return [known.encoding, bytes];
    }

    #isClaimed(bytes) {
      return this.#claims !== undefined && bytes.length > this.#claimAbove;
    }

    #sealed(type, encoding, payload) {
      if (payload.length > this.#maxBytes) throw new InvalidSubmission(`the payload has ${payload.length} bytes; the most is ${this.#maxBytes}`);
      const header = { encoding, gzip: false, key: this.#keys?.first, claim: undefined };
      let bytes = payload;
      if (this.#compress && bytes.length > this.#compressAbove) {
        const smaller = zlib.gzipSync(bytes);
        header.gzip = smaller.length < bytes.length;
        if (header.gzip) bytes = smaller;
      }
      if (header.key === undefined) return [header, bytes];
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(CIPHER, this.#keys.get(header.key), nonce, { authTagLength: TAG_BYTES }).setAAD(bound(type, header));
      return [header, Buffer.concat([nonce, cipher.update(bytes), cipher.final(), cipher.getAuthTag()])];
    }

    #opened(type, known, bytes) {
      const key = this.#keys?.get(known.key);
      if (key === undefined) throw new CodecError(`the payload is encrypted with the key ${known.key}, which this program does not have`);
      if (bytes.length < NONCE_BYTES + TAG_BYTES) throw new CodecError('the encrypted payload is too short');
      const end = bytes.length - TAG_BYTES;
      const cipher = createDecipheriv(CIPHER, key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
      cipher.setAAD(bound(type, known)).setAuthTag(bytes.subarray(end));
      try {
        return Buffer.concat([cipher.update(bytes.subarray(NONCE_BYTES, end)), cipher.final()]);
      } catch {
        throw new CodecError(`the payload does not fit the key ${known.key}, the type ${type} and the header: it was changed or moved`);
      }
    }

    async #claimed(sha256, payload) {
      if (payload.length > 0) throw new CodecError('the payload is stored apart, but the job has bytes of its own');
      if (this.#claims === undefined) throw new CodecError(`the payload is stored apart, sha256 ${sha256}, and this program has no store: new Codecs({ claims })`);
      const most = this.#maxBytes + NONCE_BYTES + TAG_BYTES;
      let bytes;
      try {
        bytes = await this.#claims.get(sha256, most);
      } catch (error) {
        throw new CodecError(`the store cannot be read for the payload sha256 ${sha256}: ${error.message}`, { cause: error });
      }
      if (bytes === undefined || bytes === null) throw new CodecError(`the store has no payload sha256 ${sha256}: it was deleted, or is not there yet`);
      if (bytes.length > most) throw new CodecError(`the stored payload sha256 ${sha256} has more than ${most} bytes`);
      if (sha256Of(bytes) !== sha256) throw new CodecError(`the stored payload sha256 ${sha256} has other bytes: it was changed`);
      return bytes;
    }
  }

  /** The header, unless nothing was done. */
  function told(header, bytes, payload) {
    const isPlain = !header.gzip && header.key === undefined && header.claim === undefined;
    return isPlain ? [undefined, payload] : [headerText(header), bytes];
  }

  function checkNoHeader(names) {
    if (names.includes(HEADER)) throw new InvalidSubmission(`the header ${HEADER} belongs to codecs: leave it out, and encode a job once`);
  }

  /** The names and values of an entry whose payload codecs have encoded. */
  function encodedFields(fields, [header, bytes]) {
    const kept = [];
    for (let at = 0; at < fields.length; at += 2) {
      checkNoHeader(fields[at].startsWith('h.') ? [fields[at].slice(2)] : []);
      if (header === undefined || (fields[at] !== 'payload' && fields[at] !== 'encoding')) kept.push(fields[at], fields[at + 1]);
    }
    return header === undefined ? kept : [...kept, 'payload', bytes, 'encoding', 'raw', `h.${HEADER}`, header];
  }

  /** Decodes the payload of a job, so that it is as if it had never been encoded. Throws a Retry, which no rule changes. */
  async function open(codecs, job) {
    const header = job.headers[HEADER];
    // Without codecs, a header of this name may mean something else.
    if (codecs === undefined && (job.encoding !== 'raw' || parsed(header) === undefined)) return;
    if (codecs === undefined) throw new Retry(`the payload is encoded (${header}), and this program has no codecs: call worker.codecs(…)`);
    try {
      const bytes = Buffer.isBuffer(job.payload) ? job.payload : Buffer.alloc(0);
      const [encoding, plain] = await codecs.decodePayload(job.type, header, bytes, job.encoding);
      job.payload = valueOf(plain, encoding);
      job.encoding = encoding;
    } catch (error) {
      throw error instanceof CodecError ? new Retry(`CodecError: ${error.message}`) : error;
    }
    const { [HEADER]: _, ...headers } = job.headers;
    job.headers = headers;
  }

  /** JSON as the worker would have sent it; other bytes stay bytes. */
  function valueOf(bytes, encoding) {
    try {
      if (encoding === 'json') return bytes.length === 0 ? null : fromJson(UTF8.decode(bytes));
      return encoding === 'msgpack' ? fromJson(jsonOfMessagePack(bytes)) : bytes;
    } catch {
      return bytes;
    }
  }

  return { Codecs, CodecError, DirectoryClaims, Keys, S3Claims, encodedFields, open };
};
