<?php

declare(strict_types=1);

namespace Streamfleet\Runtime;

use Streamfleet\Runtime;
use Swoole\Coroutine;

/** Runs each job in a coroutine of Swoole, with its hooks, so that waiting for databases and HTTP lets the others go on. */
final class Swoole implements Runtime
{
    public function run(\Closure $loop): void
    {
        if (Coroutine::getCid() > 0) {
            // A framework has begun to run coroutines.
            $loop();
            return;
        }
        Coroutine::set(['hook_flags' => SWOOLE_HOOK_ALL]);
        Coroutine\run($loop);
    }

    public function go(\Closure $job): void
    {
        Coroutine::create($job);
    }

    public function wait($stream, float $seconds): bool
    {
        return (bool) Coroutine\System::waitEvent($stream, SWOOLE_EVENT_READ, $seconds);
    }

    public function pause(float $seconds): void
    {
        Coroutine\System::sleep($seconds);
    }
}
