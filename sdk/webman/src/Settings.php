<?php

declare(strict_types=1);

namespace Streamfleet\Webman;

use Streamfleet\Launcher;
use Streamfleet\Submission;

/** A connection of `config/plugin/webman/redis-queue/redis.php`, and what `config/plugin/streamfleet/webman/app.php` says. */
final class Settings
{
    private const OWN = ['enable' => false, 'namespace' => 'sf', 'program' => 'streamfleet', 'ahead' => 0, 'config' => null];
    private const MAX_ATTEMPTS = 5;
    private const RETRY_SECONDS = 5;
    private const LONGEST_NAME = 64;

    /**
     * @param array<string, mixed> $options of the connection
     * @param array<string, mixed> $own
     */
    private function __construct(private readonly string $host, private readonly array $options, private readonly array $own)
    {
    }

    /** Whether this package takes the jobs of webman/redis-queue. */
    public static function isEnabled(): bool
    {
        return function_exists('config') && (bool) (self::own()['enable']);
    }

    public static function of(string $connection): self
    {
        $all = config('redis_queue') ?? config('plugin.webman.redis-queue.redis') ?? [];
        $section = $all[$connection] ?? throw new \RuntimeException("RedisQueue connection $connection not found: config/plugin/webman/redis-queue/redis.php does not have it");
        return new self((string) $section['host'], (array) ($section['options'] ?? []), self::own());
    }

    /** How often a job may be repeated. */
    public function maxAttempts(): int
    {
        return (int) ($this->options['max_attempts'] ?? self::MAX_ATTEMPTS);
    }

    /** How long a job rests after this many failures, in seconds. */
    public function pause(int $failures): int
    {
        return max(0, (int) ($this->options['retry_seconds'] ?? self::RETRY_SECONDS) * $failures);
    }

    public function namespace(): string
    {
        return (string) $this->own['namespace'];
    }

    /** The fleet's name of a queue: with the prefix of the connection, in lower case, and with `-` in place of what its names do not have. */
    public function queue(string $queue): string
    {
        $name = trim((string) preg_replace('/[^a-z0-9_-]+/', '-', strtolower(($this->options['prefix'] ?? '') . $queue)), '-_');
        return Submission::queue(substr($name, 0, self::LONGEST_NAME));
    }

    /** @param list<string> $queues of the fleet */
    public function launcher(array $queues, int $processes): Launcher
    {
        $config = $this->own['config'];
        return new Launcher($this->address(), $queues, (string) $this->own['program'], $this->namespace(), $processes, $config === null ? null : (string) $config, (int) $this->own['ahead']);
    }

    /** A connection to Redis. */
    public function connect(): \Redis
    {
        $redis = new \Redis();
        $seconds = (float) ($this->options['timeout'] ?? 2);
        if ($this->path() !== null) {
            $redis->connect($this->path(), 0, $seconds);
        } else {
            $redis->connect(($this->isTls() ? 'tls://' : '') . $this->part(PHP_URL_HOST, '127.0.0.1'), (int) $this->part(PHP_URL_PORT, '6379'), $seconds);
        }
        [$user, $password] = $this->login();
        if ($password !== '') {
            $redis->auth($user === '' ? $password : [$user, $password]);
        }
        if ($this->database() !== 0) {
            $redis->select($this->database());
        }
        return $redis;
    }

    /** The address, as the worker takes it. */
    public function address(): string
    {
        [$user, $password] = $this->login();
        if ($this->path() !== null) {
            $parameters = http_build_query(array_filter(['db' => $this->database(), 'user' => $user, 'pass' => $password]));
            return "redis+unix://{$this->path()}" . ($parameters === '' ? '' : "?$parameters");
        }
        $login = $password === '' ? '' : rawurlencode($user) . ':' . rawurlencode($password) . '@';
        $database = $this->database() === 0 ? '' : "/{$this->database()}";
        return ($this->isTls() ? 'rediss' : 'redis') . "://$login" . $this->part(PHP_URL_HOST, '127.0.0.1') . ':' . $this->part(PHP_URL_PORT, '6379') . $database;
    }

    /** @return array<string, mixed> */
    private static function own(): array
    {
        $own = (array) config('plugin.streamfleet.webman.app', []);
        $unknown = array_diff_key($own, self::OWN);
        if ($unknown !== []) {
            throw new \InvalidArgumentException("config/plugin/streamfleet/webman/app.php has a key '" . key($unknown) . "', which does not exist; there are " . implode(', ', array_keys(self::OWN)));
        }
        return $own + self::OWN;
    }

    private function part(int $part, string $otherwise): string
    {
        return (string) (parse_url(str_contains($this->host, '://') ? $this->host : "redis://{$this->host}", $part) ?: $otherwise);
    }

    private function isTls(): bool
    {
        return preg_match('~\A(rediss|tls|ssl)://~', $this->host) === 1;
    }

    /** The path of a socket; null for a host. */
    private function path(): ?string
    {
        return preg_match('~\A(?:(?:redis\+)?unix://)?(/.*)\z~', $this->host, $found) === 1 ? $found[1] : null;
    }

    /** @return array{string, string} user and password */
    private function login(): array
    {
        $auth = $this->options['auth'] ?? '';
        $parts = array_values(array_map(strval(...), is_array($auth) ? $auth : [(string) $auth]));
        return count($parts) > 1 ? [$parts[0], $parts[1]] : ['', $parts[0] ?? ''];
    }

    private function database(): int
    {
        return (int) ($this->options['database'] ?? $this->options['db'] ?? 0);
    }
}
