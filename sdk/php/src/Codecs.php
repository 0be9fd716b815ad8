<?php

declare(strict_types=1);

namespace Streamfleet;

use Streamfleet\Codecs\CodecError;
use Streamfleet\Codecs\Header;
use Streamfleet\Codecs\Keys;
use Streamfleet\Codecs\Store;

/**
 * What is done to payloads: they are compressed, then encrypted, then stored apart, as far as this says so. See docs/codecs.md.
 *
 * Give it to a Producer and to a Worker, or as the option `codecs` of a job. A payload without the header `codec` is left as it is.
 */
final class Codecs
{
    private const CIPHER = 'aes-256-gcm';
    private const NONCE = 12;
    private const TAG = 16;
    private const CHUNK = 8192;

    /**
     * @param ?Keys $keys encrypts every payload with the first key
     * @param bool $compress compresses payloads of more than `$compressAbove` bytes, if that makes them smaller
     * @param ?Store $claims where payloads of more than `$claimAbove` bytes are stored: a Codecs\Directory or Codecs\S3
     * @param int $maxBytes the most bytes that a payload may have, stored apart or decompressed
     */
    public function __construct(
        private readonly ?Keys $keys = null,
        private readonly bool $compress = false,
        private readonly ?Store $claims = null,
        private readonly int $compressAbove = 1024,
        private readonly int $claimAbove = 256 * 1024,
        private readonly int $maxBytes = 64 * 1024 * 1024,
    ) {
        if (min($compressAbove, $claimAbove) < 0 || $maxBytes < 1) {
            throw new \InvalidArgumentException('compressAbove and claimAbove must not be negative, and maxBytes must be at least 1');
        }
        if ($keys !== null && !extension_loaded('openssl')) {
            throw new \LogicException('encryption needs the extension openssl');
        }
        if ($compress && !extension_loaded('zlib')) {
            throw new \LogicException('compression needs the extension zlib');
        }
    }

    /**
     * The header, and the bytes to send with the encoding `raw`. Without a header, nothing was done.
     *
     * @return array{?string, string}
     * @throws CodecError if the store does not take the bytes
     */
    public function encodePayload(string $type, string $encoding, string $payload): array
    {
        if (strlen($payload) > $this->maxBytes) {
            throw new InvalidSubmission('the payload has ' . strlen($payload) . " bytes; the most is {$this->maxBytes}");
        }
        $bytes = $payload;
        $smaller = $this->compress && strlen($bytes) > $this->compressAbove ? gzencode($bytes) : $bytes;
        $isGzip = strlen($smaller) < strlen($bytes);
        $bytes = $isGzip ? $smaller : $bytes;
        if ($this->keys !== null) {
            $bytes = self::sealed($this->keys, $type, new Header($encoding, $isGzip, $this->keys->first), $bytes, random_bytes(self::NONCE));
        }
        $claim = null;
        if ($this->claims !== null && strlen($bytes) > $this->claimAbove) {
            $claim = self::stored($this->claims, $bytes);
            $bytes = '';
        }
        $header = new Header($encoding, $isGzip, $this->keys?->first, $claim);
        return $header->isPlain() ? [null, $payload] : [$header->text(), $bytes];
    }

    /**
     * The encoding of the plain payload, and its bytes.
     *
     * @param string $encoding the encoding that the job itself names
     * @return array{string, string}
     * @throws CodecError if it cannot be decoded, or not yet
     */
    public function decodePayload(string $type, string $header, string $payload, string $encoding = 'raw'): array
    {
        $told = Header::parse($header) ?? throw new CodecError('the header codec is not one that this version reads: ' . json_encode(substr($header, 0, 100), JSON_INVALID_UTF8_SUBSTITUTE));
        if ($encoding !== 'raw') {
            throw new CodecError('the job has the header codec, so its encoding must be raw, not ' . substr($encoding, 0, 20));
        }
        $bytes = $told->claim === null ? $payload : $this->claimed($told->claim, $payload);
        if ($told->key !== null) {
            $bytes = $this->opened($type, $told, $bytes);
        }
        return [$told->encoding, $told->isGzip ? self::inflated($bytes, $this->maxBytes) : $bytes];
    }

    /**
     * @internal The line of a job as if its payload had never been encoded.
     *
     * @param array<string, mixed> $line
     * @return array{array<string, mixed>, ?Outcome} the line, and what becomes of the job if its payload cannot be decoded
     */
    public static function open(?self $codecs, array $line): array
    {
        $header = $line['headers'][Header::NAME] ?? null;
        $encoding = (string) ($line['encoding'] ?? 'json');
        // Without codecs, a header of this name may mean something else.
        if (!is_string($header) || $codecs === null && ($encoding !== 'raw' || Header::parse($header) === null)) {
            return [$line, null];
        }
        if ($codecs === null) {
            return [$line, new Retry("the payload is encoded ($header), and this program has no codecs: call Worker::codecs")];
        }
        try {
            $payload = (string) base64_decode((string) ($line['payload_base64'] ?? ''), true);
            [$encoding, $payload] = $codecs->decodePayload((string) ($line['job_type'] ?? ''), $header, $payload, $encoding);
        } catch (CodecError $error) {
            return [$line, new Retry("CodecError: {$error->getMessage()}")];
        }
        unset($line['payload'], $line['payload_base64'], $line['headers'][Header::NAME]);
        return [['encoding' => $encoding] + self::value($payload, $encoding) + $line, null];
    }

    /** @return array<string, mixed> the payload as the worker would have written it */
    private static function value(string $payload, string $encoding): array
    {
        try {
            $json = match ($encoding) {
                'json' => $payload === '' ? 'null' : $payload,
                'msgpack' => Codecs\MessagePack::json($payload),
                default => throw new \UnexpectedValueException('they are only bytes'),
            };
            return ['payload' => json_decode($json, true, Inbox::DEPTH, JSON_BIGINT_AS_STRING | JSON_THROW_ON_ERROR)];
        } catch (\JsonException|\UnexpectedValueException) {
            // The worker would have written them so.
        }
        return ['payload_base64' => base64_encode($payload)];
    }

    private static function stored(Store $store, string $bytes): string
    {
        $sha256 = hash('sha256', $bytes);
        try {
            $store->put($sha256, $bytes);
        } catch (\Exception $error) {
            throw new CodecError("the store does not take the payload sha256 $sha256, so nothing was sent: {$error->getMessage()}", 0, $error);
        }
        return $sha256;
    }

    private function claimed(string $sha256, string $payload): string
    {
        if ($payload !== '') {
            throw new CodecError('the payload is stored apart, but the job has bytes of its own');
        }
        if ($this->claims === null) {
            throw new CodecError("the payload is stored apart, sha256 $sha256, and this program has no store: new Codecs(claims: …)");
        }
        $most = $this->maxBytes + self::NONCE + self::TAG;
        try {
            $bytes = $this->claims->get($sha256, $most);
        } catch (\Exception $error) {
            throw new CodecError("the store cannot be read for the payload sha256 $sha256: {$error->getMessage()}", 0, $error);
        }
        return match (true) {
            $bytes === null => throw new CodecError("the store has no payload sha256 $sha256: it was deleted, or is not there yet"),
            strlen($bytes) > $most => throw new CodecError("the stored payload sha256 $sha256 has more than $most bytes"),
            !hash_equals($sha256, hash('sha256', $bytes)) => throw new CodecError("the stored payload sha256 $sha256 has other bytes: it was changed"),
            default => $bytes,
        };
    }

    private function opened(string $type, Header $told, string $bytes): string
    {
        $key = $this->keys?->get((string) $told->key) ?? throw new CodecError("the payload is encrypted with the key {$told->key}, which this program does not have");
        $size = strlen($bytes) - self::NONCE - self::TAG;
        if ($size < 0) {
            throw new CodecError('the encrypted payload is too short');
        }
        $text = substr($bytes, self::NONCE, $size);
        $plain = openssl_decrypt($text, self::CIPHER, $key, OPENSSL_RAW_DATA, substr($bytes, 0, self::NONCE), substr($bytes, -self::TAG), self::bound($type, $told));
        return $plain === false ? throw new CodecError("the payload does not fit the key {$told->key}, the type $type and the header: it was changed or moved") : $plain;
    }

    /** What a ciphertext is bound to. */
    private static function bound(string $type, Header $header): string
    {
        return "$type\n{$header->sealed()}";
    }

    private static function sealed(Keys $keys, string $type, Header $header, string $bytes, string $nonce): string
    {
        $text = openssl_encrypt($bytes, self::CIPHER, (string) $keys->get((string) $header->key), OPENSSL_RAW_DATA, $nonce, $tag, self::bound($type, $header), self::TAG);
        return $text === false ? throw new CodecError('the payload cannot be encrypted: ' . openssl_error_string()) : $nonce . $text . $tag;
    }

    /** Decompresses one member of gzip, and never much more than this many bytes. */
    private static function inflated(string $bytes, int $most): string
    {
        if (!extension_loaded('zlib')) {
            throw new CodecError('the payload is compressed, and PHP has no extension zlib');
        }
        $inflating = inflate_init(ZLIB_ENCODING_GZIP);
        $plain = '';
        for ($at = 0; $at < strlen($bytes) && inflate_get_status($inflating) !== ZLIB_STREAM_END; $at += self::CHUNK) {
            $part = @inflate_add($inflating, substr($bytes, $at, self::CHUNK), ZLIB_SYNC_FLUSH);
            if ($part === false) {
                throw new CodecError('the compressed payload is not gzip');
            }
            $plain .= $part;
            if (strlen($plain) > $most) {
                throw new CodecError("the decompressed payload has more than $most bytes");
            }
        }
        return match (true) {
            inflate_get_status($inflating) !== ZLIB_STREAM_END => throw new CodecError('the compressed payload is cut off'),
            inflate_get_read_len($inflating) !== strlen($bytes) => throw new CodecError('bytes follow the compressed payload'),
            default => $plain,
        };
    }
}
