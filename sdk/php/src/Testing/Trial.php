<?php

declare(strict_types=1);

namespace Streamfleet\Testing;

use Streamfleet\Done;
use Streamfleet\Drop;
use Streamfleet\Fatal;
use Streamfleet\Job;
use Streamfleet\Outcome;
use Streamfleet\Snooze;
use Streamfleet\Status;

/** One attempt of a job in a test, and its outcome. */
final class Trial
{
    /**
     * @param ?\Throwable $thrown what the handler threw
     * @param list<array<string, mixed>> $lines what a worker would have read: progress, log, and the result (docs/pools.md)
     */
    public function __construct(
        public readonly Job $job,
        public readonly Outcome $outcome,
        public readonly ?\Throwable $thrown,
        public readonly array $lines,
    ) {
    }

    /** The result of a success, as a waiting producer would get it; null if there is none. */
    public function result(): mixed
    {
        $line = $this->lines[count($this->lines) - 1];
        return isset($line['result_base64']) ? base64_decode((string) $line['result_base64'], true) : Status::plain($line['result'] ?? null);
    }

    /** Why the attempt failed, or the reason of Snooze or Drop. */
    public function error(): ?string
    {
        $line = $this->lines[count($this->lines) - 1];
        return $line['error'] ?? $line['reason'] ?? null;
    }

    /** The state of the job after this attempt. */
    public function state(): string
    {
        return match (true) {
            $this->outcome instanceof Done => 'done',
            $this->outcome instanceof Drop => 'cancelled',
            $this->outcome instanceof Fatal => 'dead',
            $this->outcome instanceof Snooze => 'scheduled',
            default => $this->job->maxAttempts !== null && $this->job->attempt >= $this->job->maxAttempts ? 'dead' : 'retrying',
        };
    }

    /**
     * The reports of progress and the log.
     *
     * @param string $kind `progress` or `log`
     * @return list<array<string, mixed>>
     */
    public function reports(string $kind): array
    {
        return array_values(array_filter($this->lines, static fn (array $line): bool => $line['type'] === $kind));
    }
}
