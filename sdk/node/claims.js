'use strict';

// Stores of payloads that are kept apart from Redis, by the SHA-256 of their bytes.

const { randomBytes } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');

const HASH = /^[0-9a-f]{64}$/;

/** A hash chooses a place, so nothing else may become one. */
function checkedHash(sha256) {
  if (typeof sha256 !== 'string' || !HASH.test(sha256)) throw new TypeError('a hash must have 64 hexadecimal digits');
  return sha256;
}

/** A folder, which all producers and handlers share: each file is in a folder of a folder, named by the first digits of its hash. */
class DirectoryClaims {
  #path;

  constructor(folder) {
    this.#path = path.resolve(folder);
  }

  #file(sha256) {
    return path.join(this.#path, sha256.slice(0, 2), sha256.slice(2, 4), checkedHash(sha256));
  }

  /** Stores bytes under their hash. Bytes that are there already get the time of now, so that deletion by age is safe. */
  async put(sha256, bytes) {
    const file = this.#file(sha256);
    if (await touched(file, bytes.length)) return;
    const folder = path.dirname(file);
    await fs.promises.mkdir(folder, { recursive: true });
    const temporary = path.join(folder, `.${randomBytes(8).toString('hex')}.tmp`);
    try {
      await fs.promises.writeFile(temporary, bytes, { flag: 'wx' });
      await synced(temporary);
      await fs.promises.rename(temporary, file);
    } catch (error) {
      await fs.promises.rm(temporary, { force: true });
      throw error;
    }
    await synced(folder);
  }

  /** Reads the bytes of a hash; undefined if there are none. Of more than `most` bytes, it may return any that are too many. */
  async get(sha256, most) {
    let file;
    try {
      file = await fs.promises.open(this.#file(sha256), 'r');
    } catch (error) {
      if (error.code === 'ENOENT') return undefined;
      throw error;
    }
    try {
      const { size } = await file.stat();
      return size > most ? Buffer.alloc(most + 1) : await file.readFile();
    } finally {
      await file.close();
    }
  }
}

/** Renews the time of a file that is whole. A file of another user is replaced. */
async function touched(file, size) {
  try {
    if ((await fs.promises.stat(file)).size !== size) return false;
    const now = new Date();
    await fs.promises.utimes(file, now, now);
    return true;
  } catch (error) {
    if (['ENOENT', 'EACCES', 'EPERM'].includes(error.code)) return false;
    throw error;
  }
}

async function synced(place) {
  const handle = await fs.promises.open(place, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** A bucket of S3, or of a store that is compatible, by an `S3` of @aws-sdk/client-s3: `new S3Claims(new S3({…}), 'my-bucket')`. */
class S3Claims {
  #client;
  #bucket;
  #prefix;

  constructor(client, bucket, { prefix = '' } = {}) {
    if (typeof client?.putObject !== 'function' || typeof client.getObject !== 'function') {
      throw new TypeError('the client must be an S3 of @aws-sdk/client-s3, which has putObject and getObject; S3Client does not');
    }
    this.#client = client;
    this.#bucket = bucket;
    this.#prefix = prefix;
  }

  /** Stores bytes under their hash. An object that is written again is as old as its last writing. */
  async put(sha256, bytes) {
    await this.#client.putObject({ Bucket: this.#bucket, Key: this.#prefix + checkedHash(sha256), Body: bytes });
  }

  /** Reads the bytes of a hash; undefined if there are none. */
  async get(sha256, most) {
    let answer;
    try {
      answer = await this.#client.getObject({ Bucket: this.#bucket, Key: this.#prefix + checkedHash(sha256) });
    } catch (error) {
      if (error?.name === 'NoSuchKey' || error?.$metadata?.httpStatusCode === 404) return undefined;
      throw error;
    }
    if (answer.ContentLength > most) {
      answer.Body.destroy?.();
      return Buffer.alloc(most + 1);
    }
    return Buffer.from(await answer.Body.transformToByteArray());
  }
}

module.exports = { DirectoryClaims, S3Claims };
