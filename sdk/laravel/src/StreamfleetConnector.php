<?php

declare(strict_types=1);

namespace Streamfleet\Laravel;

use Illuminate\Contracts\Config\Repository;
use Illuminate\Contracts\Redis\Factory;
use Illuminate\Queue\Connectors\ConnectorInterface;
use Streamfleet\Launcher;
use Streamfleet\Producer;

/** Makes the queue of a connection in `config/queue.php`. */
final class StreamfleetConnector implements ConnectorInterface
{
    private const DEFAULTS = ['connection' => 'default', 'queue' => 'default', 'namespace' => 'sf', 'program' => 'streamfleet', 'processes' => 1, 'ahead' => 0, 'after_commit' => false, 'config' => null];

    public function __construct(private readonly Factory $redis, private readonly Repository $config)
    {
    }

    /** @param array<string, mixed> $config the connection */
    public function connect(array $config): StreamfleetQueue
    {
        $config = array_filter($config, static fn (mixed $value): bool => $value !== null) + self::DEFAULTS;
        return new StreamfleetQueue(
            fn () => Producer::client($this->redis->connection($config['connection'])->client()),
            fn (array $queues): Launcher => new Launcher(
                $this->address((string) $config['connection']),
                $queues,
                (string) $config['program'],
                (string) $config['namespace'],
                (int) $config['processes'],
                $config['config'],
                (int) $config['ahead'],
            ),
            (string) $config['queue'],
            (string) $config['namespace'],
            (bool) $config['after_commit'],
        );
    }

    /** The address of a Redis connection of `config/database.php`, as the worker takes it. */
    private function address(string $connection): string
    {
        $redis = (array) $this->config->get('database.redis');
        $nodes = $redis['clusters'][$connection] ?? null;
        $server = (array) ($nodes[0] ?? $redis[$connection] ?? throw new \InvalidArgumentException("config/database.php has no redis connection '$connection', which the queue connection streamfleet names"));
        if (is_string($server['url'] ?? null) && $server['url'] !== '') {
            return $server['url'];
        }
        $text = static fn (string $name): string => rawurlencode((string) ($server[$name] ?? ''));
        $login = $text('username') . ($text('password') === '' ? '' : ":{$text('password')}");
        $login = $login === '' ? '' : "$login@";
        $host = (string) ($server['host'] ?? '127.0.0.1');
        if (str_starts_with($host, '/')) {
            return "redis+unix://$host";
        }
        $isTls = ($server['scheme'] ?? '') === 'tls' || str_starts_with($host, 'tls://');
        $scheme = $nodes !== null ? 'redis-cluster' : ($isTls ? 'rediss' : 'redis');
        $host = preg_replace('~\A\w+://~', '', $host) . ':' . ($server['port'] ?? 6379);
        $database = $nodes === null && ($server['database'] ?? 0) != 0 ? "/{$server['database']}" : '';
        return "$scheme://$login$host$database";
    }
}
