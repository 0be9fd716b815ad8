<?php

declare(strict_types=1);

namespace App\Jobs;

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\InteractsWithQueue;

/** Ends its program. */
class Leave implements ShouldQueue
{
    use Dispatchable, InteractsWithQueue, Note, Queueable;

    public function handle(): void
    {
        $this->note("left, attempt {$this->attempts()}");
        exit(3);
    }
}
