<?php

declare(strict_types=1);

namespace App;

/** What happened, in its order: a list in Redis. */
final class Notes
{
    private static ?\Redis $redis = null;

    public static function add(string $note): void
    {
        self::$redis ??= self::connect();
        self::$redis->rPush('notes', $note);
    }

    private static function connect(): \Redis
    {
        $redis = new \Redis();
        $redis->connect('127.0.0.1', (int) getenv('REDIS_PORT'));
        return $redis;
    }
}
