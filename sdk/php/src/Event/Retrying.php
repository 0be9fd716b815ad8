<?php

declare(strict_types=1);

namespace Streamfleet\Event;

use Streamfleet\Job;
use Streamfleet\Retry;
use Streamfleet\Unknown;

/** An attempt failed, and the job has attempts left, as far as this program knows. */
final class Retrying
{
    /** @param ?\Throwable $error what was thrown; null if the handler returned the outcome */
    public function __construct(public readonly Job $job, public readonly Retry|Unknown $outcome, public readonly ?\Throwable $error, public readonly float $seconds)
    {
    }
}
