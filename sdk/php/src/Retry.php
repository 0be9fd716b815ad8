<?php

declare(strict_types=1);

namespace Streamfleet;

/** The attempt failed. The job is tried again, until it has failed as often as its policy allows. */
final class Retry implements Outcome
{
    private readonly ?int $delayMs;

    /** @param int|float|null $after the pause in seconds, in place of the pause of the policy */
    public function __construct(public readonly string $error, int|float|null $after = null)
    {
        $this->delayMs = $after === null ? null : Time::lengthMs($after, 'after');
    }

    public function fields(): array
    {
        $fields = ['outcome' => 'retry', 'error' => Pipe::cut($this->error)];
        return $this->delayMs === null ? $fields : $fields + ['delay_ms' => $this->delayMs];
    }
}
