<?php

declare(strict_types=1);

namespace App\Jobs;

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\InteractsWithQueue;

/** Goes back once, as by the middleware RateLimited, and then fails by hand. */
class Release implements ShouldQueue
{
    use Dispatchable, InteractsWithQueue, Note, Queueable;

    public $tries = 5;

    public function handle(): void
    {
        $this->note("release, attempt {$this->attempts()}");
        if ($this->attempts() < 2) {
            $this->release(1);
        } else {
            $this->fail(new \DomainException('no more'));
        }
    }
}
