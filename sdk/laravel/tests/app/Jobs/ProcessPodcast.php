<?php

declare(strict_types=1);

namespace App\Jobs;

use Illuminate\Bus\Batchable;
use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\InteractsWithQueue;

/** A job as `php artisan make:job` writes it. */
class ProcessPodcast implements ShouldQueue
{
    use Batchable, Dispatchable, InteractsWithQueue, Note, Queueable;

    public function __construct(public string $podcast)
    {
    }

    public function handle(): void
    {
        $this->note("processed {$this->podcast} on {$this->job->getQueue()}, attempt {$this->attempts()}");
    }
}
