<?php

declare(strict_types=1);

namespace Streamfleet;

/**
 * phpredis: a Redis or RedisCluster object, or a proxy of a framework that passes rawCommand on, such as Hyperf's.
 *
 * It uses rawCommand only, because phpredis applies OPT_PREFIX, OPT_SERIALIZER and OPT_COMPRESSION to its own methods, but
 * not to that one.
 */
final class PhpRedisClient implements Client
{
    /** The database to be selected after a connection was lost. */
    private ?int $database = null;

    public function __construct(private readonly object $redis)
    {
        if ($redis instanceof \RedisArray) {
            throw new \InvalidArgumentException('a RedisArray spreads keys over servers that know nothing of each other; pass the Redis object of the fleet');
        }
    }

    public function call(array $command): mixed
    {
        $this->mustBeIdle();
        try {
            $this->select();
            $this->redis->clearLastError();
            $reply = $this->send($command);
            $error = $reply === false ? $this->redis->getLastError() ?? 'phpredis returned false' : null;
        } catch (\Exception $exception) {
            // Those of phpredis, of its cluster, or of a proxy.
            throw $this->translated($exception);
        }
        if ($error !== null) {
            throw new Refused($error);
        }
        return self::nulls($reply);
    }

    public function pipeline(array $commands): array
    {
        // A cluster has no pipelines, and the proxy of a pool may use another connection for each call.
        if (!$this->redis instanceof \Redis) {
            return array_map($this->attempt(...), $commands);
        }
        $this->mustBeIdle();
        $replies = [];
        try {
            $this->select();
            $this->reconnect();
            $this->redis->clearLastError();
            $this->redis->multi(\Redis::PIPELINE);
            foreach ($commands as $command) {
                $this->redis->rawCommand(...$command);
            }
            $replies = $this->redis->exec();
        } catch (\RedisException $exception) {
            $this->hangUp();
            // phpredis drops the other replies, so those jobs may have been accepted.
            $replies = null;
            $why = $exception->getMessage();
        }
        if (!is_array($replies) || count($replies) !== count($commands)) {
            return array_map(static fn (): Unconfirmed => new Unconfirmed($why ?? 'phpredis returned no replies'), $commands);
        }
        // phpredis keeps the last error only.
        $error = $this->redis->getLastError() ?? 'phpredis returned false';
        $result = static fn (mixed $reply): mixed => $reply === false ? new Refused($error) : self::nulls($reply);
        return array_combine(array_keys($commands), array_map($result, $replies));
    }

    private function attempt(array $command): mixed
    {
        try {
            return $this->call($command);
        } catch (SubmitError $error) {
            return $error;
        }
    }

    private function send(array $command): mixed
    {
        // A cluster wants to know which node to send it to.
        return $this->redis instanceof \RedisCluster
            ? $this->redis->rawCommand($command[1], ...$command)
            : $this->redis->rawCommand(...$command);
    }

    private function mustBeIdle(): void
    {
        try {
            $isBusy = $this->redis instanceof \Redis && $this->redis->getMode() !== \Redis::ATOMIC;
        } catch (\RedisException $error) {
            throw new Refused('the Redis object has no connection: call connect() first', 0, $error);
        }
        if ($isBusy) {
            throw new \LogicException('the Redis object is in a MULTI or a pipeline, so its replies come later: call exec() first, or pass another object');
        }
    }

    /** phpredis throws the server's refusals, such as OOM, as it throws broken connections. */
    private function translated(\Exception $exception): SubmitError
    {
        $text = $exception->getMessage();
        // The server's errors begin with a code in capitals; those of phpredis are sentences.
        if (preg_match('/\A[A-Z]{2,}(?= )/', $text) === 1) {
            return new Refused($text, 0, $exception);
        }
        $this->hangUp();
        return new Unconfirmed($text, 0, $exception);
    }

    /**
     * After a timeout, phpredis would take the late reply for that of the next command. After it was closed, the next command
     * connects again, but not to its database: that is selected here, or else before the next command. A proxy renews its
     * connections itself.
     */
    private function hangUp(): void
    {
        if (!$this->redis instanceof \Redis) {
            return;
        }
        try {
            $this->database ??= (int) $this->redis->getDbNum();
            $this->redis->close();
            $this->select();
        } catch (\RedisException) {
            // There is no server at present.
        }
    }

    /** If the server has closed an idle connection, phpredis connects again, but not in a pipeline. */
    private function reconnect(): void
    {
        try {
            $this->redis->rawCommand('PING');
        } catch (\RedisException $exception) {
            // The login may not do this, or there is no server: the jobs themselves will tell. A late reply must not be taken for theirs.
            $this->translated($exception);
        }
    }

    private function select(): void
    {
        if ($this->database !== null) {
            $this->redis->select($this->database);
            $this->database = null;
        }
    }

    private static function nulls(mixed $reply): mixed
    {
        if (is_array($reply)) {
            return array_map(self::nulls(...), $reply);
        }
        return $reply === false ? null : $reply;
    }
}
