<?php

declare(strict_types=1);

namespace Streamfleet;

/** What runs several jobs of one program at once: see Worker::concurrency. */
interface Runtime
{
    /** Runs the loop that takes jobs, and returns after it and all coroutines have ended. */
    public function run(\Closure $loop): void;

    /** Starts a coroutine, and returns when it has ended or waits. */
    public function go(\Closure $job): void;

    /**
     * Lets the coroutines go on until there is something to read, for this many seconds at most.
     *
     * @param resource $stream
     * @return bool whether there is something to read
     */
    public function wait($stream, float $seconds): bool;

    /** Lets the coroutines go on for about this long. */
    public function pause(float $seconds): void;
}
