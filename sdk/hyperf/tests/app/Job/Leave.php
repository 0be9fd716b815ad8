<?php

declare(strict_types=1);

namespace App\Job;

use App\Notes;
use Hyperf\AsyncQueue\Job;

/** Ends its program. */
class Leave extends Job
{
    protected int $maxAttempts = 1;

    public function handle()
    {
        Notes::add('leaves');
        exit(3);
    }
}
