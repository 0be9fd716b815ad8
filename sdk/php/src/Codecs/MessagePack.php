<?php

declare(strict_types=1);

namespace Streamfleet\Codecs;

use Streamfleet\Submission;

/**
 * MessagePack as JSON, as the worker gives it to handlers.
 *
 * @internal
 */
final class MessagePack
{
    /** The worker reads no deeper MessagePack. */
    private const DEPTH = 64;
    /** What has a length, by its first byte, and how the length is packed. */
    private const LENGTHS = [0xd9 => ['text', 'C', 1], 0xda => ['text', 'n', 2], 0xdb => ['text', 'N', 4], 0xdc => ['array', 'n', 2], 0xdd => ['array', 'N', 4], 0xde => ['map', 'n', 2], 0xdf => ['map', 'N', 4]];
    private const WORDS = [0xc0 => 'null', 0xc2 => 'false', 0xc3 => 'true'];

    private int $at = 0;

    private function __construct(private readonly string $bytes)
    {
    }

    /**
     * The JSON of a value.
     *
     * @throws \UnexpectedValueException it is no MessagePack, or JSON would lose something of it: bytes, keys that are not texts, NaN
     */
    public static function json(string $bytes): string
    {
        if ($bytes === '') {
            return 'null';
        }
        $reader = new self($bytes);
        $json = $reader->value(0);
        return $reader->at === strlen($bytes) ? $json : throw new \UnexpectedValueException('bytes follow the MessagePack');
    }

    private function value(int $depth): string
    {
        $first = ord($this->take(1));
        return match (true) {
            isset(self::WORDS[$first]) => self::WORDS[$first],
            $first <= 0x7f => (string) $first,
            $first >= 0xe0 => (string) ($first - 256),
            $first >= 0xca && $first <= 0xd3 => $this->number($first),
            default => $this->sized($this->kind($first), $depth),
        };
    }

    private function number(int $first): string
    {
        return match ($first) {
            0xca => self::finite(unpack('G', $this->take(4))[1]),
            0xcb => self::finite(unpack('E', $this->take(8))[1]),
            // PHP has no unsigned integers of 64 bits.
            0xcf => sprintf('%u', unpack('J', $this->take(8))[1]),
            0xcc, 0xcd, 0xce => (string) hexdec(bin2hex($this->take(1 << ($first - 0xcc)))),
            0xd0 => (string) unpack('c', $this->take(1))[1],
            0xd1 => (string) self::signed(unpack('n', $this->take(2))[1], 16),
            0xd2 => (string) self::signed(unpack('N', $this->take(4))[1], 32),
            0xd3 => (string) unpack('J', $this->take(8))[1],
        };
    }

    private static function signed(int $value, int $bits): int
    {
        return $value >= 1 << ($bits - 1) ? $value - (1 << $bits) : $value;
    }

    private static function finite(float $value): string
    {
        return is_finite($value) ? Submission::json($value) : throw new \UnexpectedValueException('JSON has no such number');
    }

    /** @return array{string, int} what has a length, and the length */
    private function kind(int $first): array
    {
        if (isset(self::LENGTHS[$first])) {
            [$kind, $form, $size] = self::LENGTHS[$first];
            return [$kind, unpack($form, $this->take($size))[1]];
        }
        return match (true) {
            $first <= 0x8f => ['map', $first & 15],
            $first <= 0x9f => ['array', $first & 15],
            $first <= 0xbf => ['text', $first & 31],
            default => throw new \UnexpectedValueException('JSON has no such value'),
        };
    }

    /** @param array{string, int} $kind */
    private function sized(array $kind, int $depth): string
    {
        [$kind, $length] = $kind;
        // Each value has a byte at least, so a hostile length takes no memory.
        if ($length > strlen($this->bytes) - $this->at) {
            throw new \UnexpectedValueException('the MessagePack is cut off');
        }
        if ($kind === 'text') {
            return self::text($this->take($length));
        }
        if ($depth >= self::DEPTH) {
            throw new \UnexpectedValueException('it is nested too deep');
        }
        $parts = [];
        for ($nth = 0; $nth < $length; $nth++) {
            $part = $this->value($depth + 1);
            if ($kind === 'map' && $part[0] !== '"') {
                throw new \UnexpectedValueException('a key is not a text');
            }
            $parts[] = $kind === 'map' ? "$part:{$this->value($depth + 1)}" : $part;
        }
        return $kind === 'map' ? '{' . implode(',', $parts) . '}' : '[' . implode(',', $parts) . ']';
    }

    private static function text(string $bytes): string
    {
        $json = json_encode($bytes, JSON_UNESCAPED_UNICODE);
        return $json === false ? throw new \UnexpectedValueException('a text is not UTF-8') : $json;
    }

    private function take(int $size): string
    {
        $taken = substr($this->bytes, $this->at, $size);
        if (strlen($taken) !== $size) {
            throw new \UnexpectedValueException('the MessagePack is cut off');
        }
        $this->at += $size;
        return $taken;
    }
}
