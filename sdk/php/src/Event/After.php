<?php

declare(strict_types=1);

namespace Streamfleet\Event;

use Streamfleet\Job;
use Streamfleet\Outcome;

/** An attempt ended, and did not fail: its outcome is Done, Snooze or Drop. */
final class After
{
    public function __construct(public readonly Job $job, public readonly Outcome $outcome, public readonly float $seconds)
    {
    }
}
