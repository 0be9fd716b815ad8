<?php

declare(strict_types=1);

namespace Streamfleet;

/** Not now: the job runs again later, and no attempt is spent. */
final class Snooze implements Outcome
{
    private readonly int $delayMs;

    /** @param int|float $seconds how long the job rests */
    public function __construct(int|float $seconds, public readonly string $reason = '')
    {
        $this->delayMs = Time::lengthMs($seconds, 'seconds');
    }

    public function fields(): array
    {
        $fields = ['outcome' => 'snooze', 'delay_ms' => $this->delayMs];
        return $this->reason === '' ? $fields : $fields + ['reason' => Pipe::cut($this->reason)];
    }
}
