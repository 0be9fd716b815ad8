<?php

declare(strict_types=1);

namespace Streamfleet;

/**
 * The job type of a Task class, and how its jobs are submitted unless the call says otherwise. On a method, the type whose jobs
 * it handles: see Worker::register. With STREAMFLEET_DESCRIBE=1, the program says what its types need (docs/pools.md).
 */
#[\Attribute(\Attribute::TARGET_CLASS | \Attribute::TARGET_METHOD)]
final class JobType
{
    /** See Submission for the parameters. */
    public function __construct(
        public readonly string $type,
        public readonly ?string $queue = null,
        public readonly ?string $lane = null,
        public readonly ?int $priority = null,
        public readonly int|float|null $delay = null,
        public readonly ?int $maxAttempts = null,
        public readonly int|float|null $timeout = null,
        public readonly ?string $tracking = null,
        public readonly ?string $onSuccess = null,
        public readonly ?string $onFailure = null,
    ) {
    }

    /** @return list<string> the options that only concern a producer, as far as they are set */
    public function submitting(): array
    {
        $set = array_filter(get_object_vars($this), static fn (mixed $value): bool => $value !== null);
        return array_keys(array_intersect_key($set, ['queue' => 1, 'lane' => 1, 'priority' => 1, 'delay' => 1]));
    }

    /** @return array<string, string|int> what belongs into the section of the type in the configuration of a worker */
    public function settings(): array
    {
        return array_filter([
            'max_attempts' => $this->maxAttempts,
            'timeout' => $this->timeout === null ? null : Time::lengthMs($this->timeout, 'timeout') . 'ms',
            'tracking' => $this->tracking,
            'on_success' => $this->onSuccess,
            'on_failure' => $this->onFailure,
        ], static fn (string|int|null $value): bool => $value !== null);
    }
}
