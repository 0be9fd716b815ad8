<?php

declare(strict_types=1);

namespace Streamfleet\Hyperf;

/** The address of a Redis of `config/autoload/redis.php`, as the worker takes it. */
final class RedisAddress
{
    /** @param array<string, mixed> $redis a section of the configuration */
    public static function of(#[\SensitiveParameter] array $redis): string
    {
        $login = self::login($redis['auth'] ?? null);
        $database = (int) ($redis['db'] ?? 0);
        if ($redis['cluster']['enable'] ?? false) {
            return 'redis-cluster://' . $login . self::nodes((array) ($redis['cluster']['seeds'] ?? []), '');
        }
        if ($redis['sentinel']['enable'] ?? false) {
            $service = rawurlencode((string) ($redis['sentinel']['master_name'] ?? 'mymaster'));
            return 'redis-sentinel://' . $login . self::nodes((array) ($redis['sentinel']['nodes'] ?? []), "/$database", "sentinelServiceName=$service");
        }
        $host = (string) ($redis['host'] ?? 'localhost');
        if (str_starts_with($host, '/')) {
            // The database and the login of a socket are parameters.
            $parameters = http_build_query(array_filter(['db' => $database, 'user' => self::parts($redis['auth'] ?? null)[0], 'pass' => self::parts($redis['auth'] ?? null)[1]]));
            return "redis+unix://$host" . ($parameters === '' ? '' : "?$parameters");
        }
        $scheme = preg_match('~\A(tls|ssl)://~', $host) === 1 ? 'rediss' : 'redis';
        return "$scheme://$login" . self::bare($host) . ':' . ($redis['port'] ?? 6379) . ($database === 0 ? '' : "/$database");
    }

    /** The first node with what follows it, and the others as parameters. */
    private static function nodes(array $nodes, string $path, string ...$parameters): string
    {
        $nodes = array_values(array_filter(array_map(static fn (mixed $node): string => self::bare((string) $node), $nodes), strlen(...)));
        if ($nodes === []) {
            throw new \InvalidArgumentException('config/autoload/redis.php enables a cluster or sentinels, and names none of their nodes');
        }
        $first = array_shift($nodes);
        array_push($parameters, ...array_map(static fn (string $node): string => "node=$node", $nodes));
        return $first . $path . ($parameters === [] ? '' : '?' . implode('&', $parameters));
    }

    private static function bare(string $host): string
    {
        return (string) preg_replace('~\A\w+://~', '', $host);
    }

    private static function login(#[\SensitiveParameter] mixed $auth): string
    {
        [$user, $password] = self::parts($auth);
        return $password === '' ? '' : rawurlencode($user) . ':' . rawurlencode($password) . '@';
    }

    /** @return array{string, string} user and password, as phpredis takes them: a text, or a list of one or two */
    private static function parts(#[\SensitiveParameter] mixed $auth): array
    {
        $parts = array_values(array_map(strval(...), is_array($auth) ? $auth : [(string) $auth]));
        return count($parts) > 1 ? [$parts[0], $parts[1]] : ['', $parts[0] ?? ''];
    }
}
