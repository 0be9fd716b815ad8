<?php

declare(strict_types=1);

namespace Streamfleet;

/**
 * The job type of a Task class, and how its jobs are submitted unless the call says otherwise. On a method, the type whose jobs
 * it handles: see Worker::register.
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
}
