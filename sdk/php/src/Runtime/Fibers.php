<?php

declare(strict_types=1);

namespace Streamfleet\Runtime;

use Streamfleet\Runtime;

/** Runs each job in a fiber. A handler that waits calls Fiber::suspend() again and again, so that the others go on. */
final class Fibers implements Runtime
{
    /** How long the program rests before it asks the fibers again, in microseconds. */
    private const REST = 1000;

    /** @var list<\Fiber<void, void, void, mixed>> those that wait */
    private array $fibers = [];

    public function run(\Closure $loop): void
    {
        $loop();
        while ($this->fibers !== []) {
            $this->pause(0.001);
        }
    }

    public function go(\Closure $job): void
    {
        $fiber = new \Fiber($job);
        $fiber->start();
        if (!$fiber->isTerminated()) {
            $this->fibers[] = $fiber;
        }
    }

    public function wait($stream, float $seconds): bool
    {
        $end = hrtime(true) + (int) ($seconds * 1e9);
        do {
            $this->resume();
            $left = (int) max(0, ($end - hrtime(true)) / 1000);
            if (self::readable($stream, $this->fibers === [] ? $left : min($left, self::REST))) {
                return true;
            }
        } while ($left > 0);
        return false;
    }

    public function pause(float $seconds): void
    {
        $this->resume();
        usleep((int) ($seconds * 1e6));
    }

    private function resume(): void
    {
        foreach ($this->fibers as $fiber) {
            $fiber->resume();
        }
        $this->fibers = array_values(array_filter($this->fibers, static fn (\Fiber $fiber): bool => !$fiber->isTerminated()));
    }

    /** @param resource $stream */
    private static function readable($stream, int $microseconds): bool
    {
        $read = [$stream];
        $none = null;
        // False if a signal arrived.
        return (bool) @stream_select($read, $none, $none, intdiv($microseconds, 1_000_000), $microseconds % 1_000_000);
    }
}
