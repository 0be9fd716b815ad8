<?php

declare(strict_types=1);

namespace App\Job;

use App\Notes;
use Hyperf\AsyncQueue\Job;

/** Fails so often; it may be repeated twice. */
class ChargeCard extends Job
{
    protected int $maxAttempts = 2;

    public function __construct(private string $card, private int $failures)
    {
    }

    public function handle()
    {
        if ((int) $this->redis()->incr("charged {$this->card}") <= $this->failures) {
            throw new \RuntimeException('the bank is busy');
        }
        Notes::add("charged {$this->card}");
    }

    public function fail(\Throwable $e): void
    {
        Notes::add("failed {$this->card}: {$e->getMessage()}");
    }

    private function redis(): \Redis
    {
        $redis = new \Redis();
        $redis->connect('127.0.0.1', (int) getenv('REDIS_PORT'));
        return $redis;
    }
}
