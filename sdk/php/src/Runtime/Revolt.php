<?php

declare(strict_types=1);

namespace Streamfleet\Runtime;

use Revolt\EventLoop;
use Streamfleet\Runtime;

/**
 * Runs each job in a fiber of Revolt's event loop, that of Amp and others, so that waiting in their libraries lets the others go on.
 * A job starts as soon as the loop takes its turn.
 */
final class Revolt implements Runtime
{
    /** How long the program rests before it looks again whether all jobs have ended, in seconds. */
    private const REST = 0.001;

    private int $jobs = 0;

    public function run(\Closure $loop): void
    {
        // Each wait within it lets the event loop run, which may have timers that never end.
        $loop();
        while ($this->jobs > 0) {
            $this->pause(self::REST);
        }
    }

    public function go(\Closure $job): void
    {
        $this->jobs += 1;
        EventLoop::queue(function () use ($job): void {
            try {
                $job();
            } finally {
                $this->jobs -= 1;
            }
        });
    }

    public function wait($stream, float $seconds): bool
    {
        return $this->suspended($seconds, static fn (\Closure $readable): string => EventLoop::onReadable($stream, $readable));
    }

    public function pause(float $seconds): void
    {
        $this->suspended($seconds, null);
    }

    /**
     * Waits for this long, or until a callback is called.
     *
     * @param ?\Closure(\Closure): string $register registers the callback, and returns its id
     * @return bool whether it was called
     */
    private function suspended(float $seconds, ?\Closure $register): bool
    {
        $suspension = EventLoop::getSuspension();
        $ids = [];
        $resume = static function (bool $isCalled) use ($suspension, &$ids): void {
            // The other one may be due in the same turn, and a fiber goes on once.
            array_map(EventLoop::cancel(...), $ids);
            $suspension->resume($isCalled);
        };
        $ids[] = EventLoop::delay($seconds, static fn () => $resume(false));
        if ($register !== null) {
            $ids[] = $register(static fn () => $resume(true));
        }
        try {
            return (bool) $suspension->suspend();
        } finally {
            array_map(EventLoop::cancel(...), $ids);
        }
    }
}
