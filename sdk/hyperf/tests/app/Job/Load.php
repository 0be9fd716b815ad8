<?php

declare(strict_types=1);

namespace App\Job;

use App\Notes;
use Hyperf\AsyncQueue\Job;
use Hyperf\Contract\CompressInterface;

/** Loads its model from a database, which is away at first. */
class Load extends Job
{
    protected int $maxAttempts = 3;

    public function uncompress(): CompressInterface
    {
        $redis = new \Redis();
        $redis->connect('127.0.0.1', (int) getenv('REDIS_PORT'));
        return $redis->incr('loads') > 1 ? $this : throw new \RuntimeException('the database is away');
    }

    public function handle()
    {
        Notes::add('loaded');
    }
}
