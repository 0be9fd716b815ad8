<?php

declare(strict_types=1);

namespace App\Jobs;

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\InteractsWithQueue;
use RuntimeException;
use Throwable;

/** Fails until the given attempt, with a pause before each retry. */
class ChargeCard implements ShouldQueue
{
    use Dispatchable, InteractsWithQueue, Note, Queueable;

    public $tries = 3;
    public $backoff = [1, 2];

    public function __construct(public string $card, public int $works)
    {
    }

    /** @return list<object> */
    public function middleware(): array
    {
        return [new class {
            use Note;

            public function handle(object $job, callable $next): void
            {
                $this->note("middleware {$job->card}");
                $next($job);
            }
        }];
    }

    public function handle(): void
    {
        if ($this->attempts() < $this->works) {
            $this->note("charge {$this->card} fails, attempt {$this->attempts()}");
            throw new RuntimeException('the bank is busy');
        }
        $this->note("charged {$this->card}, attempt {$this->attempts()}");
    }

    public function failed(Throwable $error): void
    {
        $this->note("failed {$this->card}: {$error->getMessage()}");
    }
}
