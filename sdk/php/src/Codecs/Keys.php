<?php

declare(strict_types=1);

namespace Streamfleet\Codecs;

/**
 * Keys by their names. The first one encrypts; all decrypt, so that keys can be rotated.
 *
 * A file or a variable has `name:key` items that white space or commas separate, each key in base64: `openssl rand -base64 32` makes
 * one. In a file, a line that begins with # is a comment.
 */
final class Keys
{
    private const BYTES = 32;
    private const MOST_FILE_BYTES = 1024 * 1024;

    /** The name of the key that encrypts. */
    public readonly string $first;

    /** @param array<string, string> $keys name → 32 bytes */
    public function __construct(#[\SensitiveParameter] private readonly array $keys)
    {
        if ($keys === []) {
            throw new \InvalidArgumentException('there must be at least one key');
        }
        foreach ($keys as $name => $key) {
            self::check((string) $name, $key, 'keys');
        }
        $this->first = (string) array_key_first($keys);
    }

    /** Reads the keys from a file. */
    public static function fromFile(string $path): self
    {
        $text = @file_get_contents($path, false, null, 0, self::MOST_FILE_BYTES);
        if ($text === false) {
            throw new \InvalidArgumentException("the file of keys $path cannot be read");
        }
        return new self(self::parsed((string) preg_replace('/^\s*#.*$/m', '', $text), $path));
    }

    /** Reads the keys from a variable of the environment. */
    public static function fromEnv(string $name): self
    {
        $text = getenv($name);
        if ($text === false) {
            throw new \InvalidArgumentException("the variable $name is not set: it must have the keys, as name:base64");
        }
        return new self(self::parsed($text, "the variable $name"));
    }

    /** The key of this name. */
    public function get(string $name): ?string
    {
        return $this->keys[$name] ?? null;
    }

    /** Nobody prints keys by accident. */
    public function __debugInfo(): array
    {
        return ['names' => array_map(strval(...), array_keys($this->keys))];
    }

    private static function check(string $name, #[\SensitiveParameter] mixed $key, string $place): void
    {
        if (preg_match('/\A' . Header::KEY_NAME . '\z/', $name) !== 1) {
            throw new \InvalidArgumentException("$place: the name of a key has 1 to 64 letters, digits, '.', '_' and '-', and begins with a letter or digit");
        }
        if (!is_string($key) || strlen($key) !== self::BYTES) {
            $size = is_string($key) ? strlen($key) : 0;
            throw new \InvalidArgumentException("$place: the key $name must have " . self::BYTES . " bytes, not $size: openssl rand -base64 32");
        }
    }

    /**
     * Reads `name:base64` items. No error shows a key.
     *
     * @return array<string, string>
     */
    private static function parsed(#[\SensitiveParameter] string $text, string $place): array
    {
        $keys = [];
        foreach (preg_split('/[\s,]+/', $text, -1, PREG_SPLIT_NO_EMPTY) as $at => $item) {
            $number = $at + 1;
            $parts = explode(':', $item, 2);
            if (count($parts) !== 2) {
                throw new \InvalidArgumentException("$place: item $number must be name:key, with the key in base64");
            }
            $key = base64_decode($parts[1], true);
            if ($key === false) {
                throw new \InvalidArgumentException("$place: the key of item $number is not base64: openssl rand -base64 32");
            }
            self::check($parts[0], $key, $place);
            if (isset($keys[$parts[0]])) {
                throw new \InvalidArgumentException("$place: there are two keys with the name {$parts[0]}");
            }
            $keys[$parts[0]] = $key;
        }
        return $keys === [] ? throw new \InvalidArgumentException("$place has no key: it must have name:key, with the key in base64") : $keys;
    }
}
