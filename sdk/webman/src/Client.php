<?php

declare(strict_types=1);

namespace Streamfleet\Webman;

use Streamfleet\Producer;
use Streamfleet\Submission;

/**
 * Sends jobs: in the place of `Webman\RedisQueue\Client` and `Webman\RedisQueue\Redis`, whose `send` does the same. Each job is one
 * XADD, and is accepted when `send` returns.
 *
 * @method static bool send(string $queue, mixed $data, int $delay = 0, ?callable $callback = null)
 */
class Client
{
    public const TYPE = 'webman.job';
    /** The headers of a job that was sent again: how often it has failed, and how often it may. */
    public const FAILURES = 'failures';
    public const MOST_FAILURES = 'most_failures';

    /** @var array<string, self> */
    private static array $connections = [];
    private ?\Redis $redis = null;
    /** A process that was forked has connections of its own. */
    private int $pid = 0;

    final private function __construct(private readonly Settings $settings)
    {
    }

    /** The connection of this name in `config/plugin/webman/redis-queue/redis.php`. */
    public static function connection(string $name = 'default'): static
    {
        return self::$connections[$name] ??= new static(Settings::of($name));
    }

    /** @param list<mixed> $arguments */
    public static function __callStatic(string $name, array $arguments): mixed
    {
        return static::connection()->__call($name, $arguments);
    }

    /**
     * `send`, or any command of phpredis.
     *
     * @param list<mixed> $arguments
     */
    public function __call(string $name, array $arguments): mixed
    {
        return match ($name) {
            'send' => $this->push(...$arguments),
            'subscribe', 'unsubscribe', 'onConsumeFailure' => throw new \LogicException("a fleet gives jobs to the programs of its pools, so $name() cannot be called: write a class that implements Webman\\RedisQueue\\Consumer"),
            default => $this->redis()->$name(...$arguments),
        };
    }

    /**
     * Sends a job again that a consumer has changed, and returns its id.
     *
     * @param array<string, mixed> $package
     */
    public function again(array $package, int $delay): string
    {
        return $this->submit((string) $package['queue'], $package['data'], $delay, [self::FAILURES => (int) $package['attempts'], self::MOST_FAILURES => (int) $package['max_attempts']]);
    }

    private function push(string $queue, mixed $data, mixed $delay = 0, ?callable $callback = null): bool
    {
        if (is_callable($delay)) {
            [$delay, $callback] = [0, $delay];
        }
        $this->submit($queue, $data, (int) $delay, []);
        if ($callback !== null) {
            $callback(true);
        }
        return true;
    }

    /** @param array<string, int> $headers */
    private function submit(string $queue, mixed $data, int $delay, array $headers): string
    {
        $name = $this->settings->queue($queue);
        $headers += $name === $queue ? [] : ['queue' => $queue];
        $producer = new Producer($this->redis(), $name, $this->settings->namespace());
        return $producer->submit(new Submission(self::TYPE, $data, delay: $delay > 0 ? $delay : null, headers: $headers));
    }

    private function redis(): \Redis
    {
        if (class_exists('Swoole\Coroutine', false) && \Swoole\Coroutine::getCid() > 0) {
            // Coroutines must not share one, and this one ends with the call.
            return $this->settings->connect();
        }
        if ($this->redis === null || $this->pid !== getmypid()) {
            [$this->redis, $this->pid] = [$this->settings->connect(), (int) getmypid()];
        }
        return $this->redis;
    }
}
