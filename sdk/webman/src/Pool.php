<?php

declare(strict_types=1);

namespace Streamfleet\Webman;

use Streamfleet\Done;
use Streamfleet\Fatal;
use Streamfleet\Inbox;
use Streamfleet\Outcome;
use Streamfleet\Retry;
use support\Log;
use Webman\RedisQueue\Consumer;
use Workerman\RedisQueue\UnretryableException;
use Workerman\Timer;

/** The program of a pool: hands jobs to the consumers of a connection, one after the other. */
final class Pool
{
    private const CHANNEL = 'plugin.webman.redis-queue.default';
    private const WAIT = 1.0;

    private readonly Settings $settings;
    /** @var array<string, Consumer> queue of the application, or of the fleet → its consumer */
    private array $consumers = [];

    /** @param array<string, Consumer> $consumers queue → consumer */
    public function __construct(private readonly Inbox $inbox, private readonly string $connection, array $consumers)
    {
        $this->settings = Settings::of($connection);
        foreach ($consumers as $queue => $consumer) {
            $this->consumers[$this->settings->queue((string) $queue)] = $consumer;
        }
        $this->consumers = $consumers + $this->consumers;
    }

    /** Works until the worker has no more jobs, or asks to stop. */
    public function run(): void
    {
        if (function_exists('pcntl_signal')) {
            pcntl_async_signals(true);
            pcntl_signal(SIGTERM, $this->inbox->stop(...));
            if (class_exists(Timer::class)) {
                // Without an event loop, timers of consumers run by an alarm.
                Timer::init();
            }
        }
        while (!$this->inbox->ended()) {
            $line = $this->inbox->pull(self::WAIT);
            if ($line !== null) {
                $this->inbox->answer((string) $line['ref'], $this->outcome($line));
            }
        }
        $this->inbox->end();
    }

    /** @param array<string, mixed> $line a job, as the worker has sent it (docs/pools.md) */
    private function outcome(array $line): Outcome
    {
        $queue = (string) ($line['headers']['queue'] ?? $line['queue'] ?? '');
        $consumer = $this->consumers[$queue] ?? null;
        if ($consumer === null) {
            return new Fatal("no consumer of the connection {$this->connection} has the queue $queue");
        }
        $package = [
            'id' => (string) $line['id'],
            'time' => intdiv((int) ($line['created_ms'] ?? 0), 1000),
            'delay' => 0,
            'attempts' => (int) ($line['headers'][Client::FAILURES] ?? 0) + (int) ($line['attempt'] ?? 1) - 1,
            'queue' => $queue,
            'data' => isset($line['payload_base64']) ? base64_decode((string) $line['payload_base64'], true) : $line['payload'] ?? null,
        ];
        $most = (int) ($line['headers'][Client::MOST_FAILURES] ?? $this->settings->maxAttempts());
        if ($package['attempts'] > $most) {
            return new Fatal("the job has ended its program {$package['attempts']} times");
        }
        try {
            $consumer->consume($package['data']);
            return new Done(null);
        } catch (\Throwable $error) {
            return $this->failed($consumer, $package, $error);
        }
    }

    /**
     * What follows from an exception, as webman/redis-queue decides it: the consumer may change the package.
     *
     * @param array<string, mixed> $package
     */
    private function failed(Consumer $consumer, array $package, \Throwable $error): Outcome
    {
        $this->log($error);
        $reason = $error::class . ": {$error->getMessage()} ({$error->getFile()}:{$error->getLine()})";
        if ($error instanceof UnretryableException) {
            return new Fatal($reason);
        }
        $package += ['max_attempts' => $this->settings->maxAttempts(), 'error' => $error->getMessage()];
        $changed = array_intersect_key($this->judged($consumer, $package, $error), $package);
        $isChanged = false;
        foreach (['data', 'attempts', 'max_attempts'] as $key) {
            $isChanged = $isChanged || array_key_exists($key, $changed) && $changed[$key] !== $package[$key];
        }
        if (($changed['error'] ?? $package['error']) !== $package['error']) {
            $reason = (string) $changed['error'];
        }
        $package = array_intersect_key($changed, ['data' => 1, 'attempts' => 1, 'max_attempts' => 1]) + $package;
        $package['attempts'] = (int) $package['attempts'] + 1;
        if ($package['attempts'] > (int) $package['max_attempts']) {
            return new Fatal($reason);
        }
        $pause = $this->settings->pause($package['attempts']);
        // What the fleet tries again is the job as it was sent.
        return $isChanged ? new Done('changed, and sent again as ' . Client::connection($this->connection)->again($package, $pause)) : new Retry($reason, $pause);
    }

    /**
     * What the consumer makes of a failure.
     *
     * @param array<string, mixed> $package
     * @return array<string, mixed>
     */
    private function judged(Consumer $consumer, array $package, \Throwable $error): array
    {
        if (!method_exists($consumer, 'onConsumeFailure')) {
            return [];
        }
        try {
            $judged = $consumer->onConsumeFailure($error, $package);
            return is_array($judged) ? array_filter($judged, static fn (mixed $value): bool => $value !== null) : [];
        } catch (\Throwable $second) {
            $this->log($second);
            return [];
        }
    }

    private function log(\Throwable $error): void
    {
        try {
            if (class_exists(Log::class)) {
                Log::channel(self::CHANNEL)->info((string) $error);
                return;
            }
        } catch (\Throwable) {
            // There is no such channel.
        }
        fwrite(STDERR, "$error\n");
    }
}
