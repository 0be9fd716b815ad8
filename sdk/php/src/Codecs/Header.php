<?php

declare(strict_types=1);

namespace Streamfleet\Codecs;

/** The header `codec`: what was done to the bytes of a payload, in order. The grammar is in docs/wire.md. */
final class Header
{
    public const NAME = 'codec';
    public const KEY_NAME = '[A-Za-z0-9][A-Za-z0-9._-]{0,63}';
    private const MOST_BYTES = 256;
    private const PATTERN = '/\A(json|msgpack|raw)(?=.)( gzip)?(?: aes-256-gcm;key=(' . self::KEY_NAME . '))?(?: claim;sha256=([0-9a-f]{64}))?\z/';

    /**
     * @param ?string $key the name of the key
     * @param ?string $claim the hash of the bytes that are stored apart
     */
    public function __construct(
        public readonly string $encoding,
        public readonly bool $isGzip = false,
        public readonly ?string $key = null,
        public readonly ?string $claim = null,
    ) {
    }

    /** Reads a header; null if it breaks the grammar. */
    public static function parse(string $text): ?self
    {
        if (strlen($text) > self::MOST_BYTES || preg_match(self::PATTERN, $text, $found, PREG_UNMATCHED_AS_NULL) !== 1) {
            return null;
        }
        return new self($found[1], $found[2] !== null, $found[3] ?? null, $found[4] ?? null);
    }

    /** The header up to the encryption, which the ciphertext is bound to. */
    public function sealed(): string
    {
        return $this->encoding . ($this->isGzip ? ' gzip' : '') . ($this->key === null ? '' : " aes-256-gcm;key={$this->key}");
    }

    public function text(): string
    {
        return $this->sealed() . ($this->claim === null ? '' : " claim;sha256={$this->claim}");
    }

    /** Whether nothing is done. */
    public function isPlain(): bool
    {
        return !$this->isGzip && $this->key === null && $this->claim === null;
    }

    /** A hash chooses a place, so nothing else may become one. */
    public static function checkHash(string $sha256): void
    {
        if (preg_match('/\A[0-9a-f]{64}\z/', $sha256) !== 1) {
            throw new \InvalidArgumentException('a hash must have 64 hexadecimal digits');
        }
    }
}
