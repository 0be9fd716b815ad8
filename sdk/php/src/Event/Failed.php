<?php

declare(strict_types=1);

namespace Streamfleet\Event;

use Streamfleet\Job;
use Streamfleet\Outcome;

/** The job failed for good, as far as this program knows: its outcome is Fatal, or the Retry or Unknown of its last attempt or of a `once` step. */
final class Failed
{
    /** @param ?\Throwable $error what was thrown; null if the handler returned the outcome */
    public function __construct(public readonly Job $job, public readonly Outcome $outcome, public readonly ?\Throwable $error, public readonly float $seconds)
    {
    }
}
