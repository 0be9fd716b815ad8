<?php

declare(strict_types=1);

namespace App\Job;

use App\Notes;
use Hyperf\AsyncQueue\Job;

class SendMail extends Job
{
    public function __construct(public string $to)
    {
    }

    public function handle()
    {
        Notes::add("mailed {$this->to}");
    }
}
