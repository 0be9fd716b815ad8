<?php

declare(strict_types=1);

namespace Streamfleet\Laravel;

use Illuminate\Container\Container;
use Illuminate\Contracts\Queue\Job as JobContract;
use Illuminate\Queue\Jobs\Job;
use Illuminate\Queue\Worker;
use Streamfleet\Done;
use Streamfleet\Fatal;
use Streamfleet\Inbox;
use Streamfleet\Outcome;
use Streamfleet\Retry;

/** A job that the fleet has given to this program. What Laravel decides about it is its outcome. */
final class StreamfleetJob extends Job implements JobContract
{
    private ?\Throwable $error = null;
    private bool $isAnswered = false;
    /** Whether Laravel ends this program at once, because the job has exceeded its timeout. */
    private bool $isLast = false;
    /** @var array<string, mixed> */
    private readonly array $payload;

    /** @param array<string, mixed> $line the job, as the worker has sent it (docs/pools.md) */
    public function __construct(Container $container, private readonly Inbox $inbox, private readonly array $line, ?string $connectionName)
    {
        $this->container = $container;
        $this->connectionName = $connectionName;
        $this->queue = $line['headers']['queue'] ?? $line['queue'] ?? '';
        if (!is_array($line['payload'] ?? null) || !isset($line['payload']['job'])) {
            $inbox->answer((string) $line['ref'], new Fatal('this is no job of Laravel: its payload has no field job, which php artisan and dispatch() write'));
            $this->isAnswered = $this->deleted = true;
        }
        $this->payload = (array) ($line['payload'] ?? []) + ['job' => '', 'data' => []];
    }

    public function getJobId(): string
    {
        return (string) $this->line['id'];
    }

    public function getRawBody(): string
    {
        return json_encode($this->payload, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION | JSON_THROW_ON_ERROR);
    }

    /** @return array<string, mixed> */
    public function payload(): array
    {
        return $this->payload;
    }

    public function attempts(): int
    {
        return (int) ($this->line['attempt'] ?? 1);
    }

    /** Why the job is about to be released. */
    public function blame(\Throwable $error): void
    {
        $this->error = $error;
    }

    public function delete(): void
    {
        parent::delete();
        $this->answer($this->hasFailed() ? new Fatal($this->reason('the job failed by hand')) : new Done(null));
    }

    /** @param \DateTimeInterface|\DateInterval|int $delay */
    public function release($delay = 0): void
    {
        parent::release($delay);
        $this->answer(new Retry($this->reason('the job was released'), max(0, $this->secondsUntil($delay))));
    }

    /** @param \Throwable|string|null $e */
    public function fail($e = null): void
    {
        $this->error = $e instanceof \Throwable ? $e : (is_string($e) ? new \RuntimeException($e) : $this->error);
        $this->isLast = self::isTimeout();
        parent::fail($e);
    }

    /** Whether Laravel's worker calls this from its alarm: it does so in a function without a name. */
    private static function isTimeout(): bool
    {
        foreach (debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS) as $call) {
            if (is_a($call['class'] ?? '', Worker::class, true) && str_contains($call['function'], '{closure')) {
                return true;
            }
        }
        return false;
    }

    private function answer(Outcome $outcome): void
    {
        if ($this->isAnswered) {
            return;
        }
        $this->isAnswered = true;
        if ($this->isLast) {
            $this->inbox->answerLast((string) $this->line['ref'], $outcome);
        } else {
            $this->inbox->answer((string) $this->line['ref'], $outcome);
        }
    }

    private function reason(string $otherwise): string
    {
        $error = $this->error;
        return $error === null ? $otherwise : $error::class . ": {$error->getMessage()} ({$error->getFile()}:{$error->getLine()})";
    }
}
