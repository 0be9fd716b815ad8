<?php

declare(strict_types=1);

namespace Streamfleet\Event;

use Streamfleet\Job;

/** A job is about to begin. */
final class Before
{
    public function __construct(public readonly Job $job)
    {
    }
}
