<?php

declare(strict_types=1);

namespace App\Jobs;

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\InteractsWithQueue;

/** Exceeds its timeout. */
class Slow implements ShouldQueue
{
    use Dispatchable, InteractsWithQueue, Note, Queueable;

    public $tries = 1;
    public $timeout = 1;

    public function handle(): void
    {
        $this->note("slow, attempt {$this->attempts()}");
        while (true) {
            usleep(100_000);
        }
    }

    public function failed(): void
    {
        $this->note('slow failed');
    }
}
