<?php

declare(strict_types=1);

namespace App\Job;

use App\Notes;
use Hyperf\AsyncQueue\Job;

/** Has what the application gave it, such as an object of a library, an enum or a date. */
class Carry extends Job
{
    public function __construct(public mixed $load)
    {
    }

    public function handle()
    {
        Notes::add('carries ' . get_debug_type($this->load));
    }
}
