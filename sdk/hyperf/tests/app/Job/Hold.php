<?php

declare(strict_types=1);

namespace App\Job;

use App\Notes;
use Hyperf\AsyncQueue\Job;

/** Waits in its coroutine until a key is there. */
class Hold extends Job
{
    public function __construct(public string $key)
    {
    }

    public function handle()
    {
        Notes::add("holds {$this->key}");
        $redis = new \Redis();
        $redis->connect('127.0.0.1', (int) getenv('REDIS_PORT'));
        while (!$redis->exists($this->key)) {
            class_exists('Swoole\Coroutine', false) ? \Swoole\Coroutine\System::sleep(0.01) : usleep(10_000);
        }
        Notes::add("let go {$this->key}");
    }
}
