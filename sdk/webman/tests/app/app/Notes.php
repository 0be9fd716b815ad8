<?php

declare(strict_types=1);

namespace app;

/** What happened, in its order: a list in Redis. */
final class Notes
{
    public static function add(string $note): void
    {
        self::redis()->rPush('notes', $note);
    }

    public static function redis(): \Redis
    {
        static $connections = [];
        return $connections[getmypid()] ??= (static function (): \Redis {
            $redis = new \Redis();
            $redis->connect('127.0.0.1', (int) getenv('REDIS_PORT'));
            return $redis;
        })();
    }
}
