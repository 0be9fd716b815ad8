<?php

declare(strict_types=1);

namespace Streamfleet;

/** Nobody needs the job any more: it ends as cancelled, which is not a failure. */
final class Drop implements Outcome
{
    public function __construct(public readonly string $reason = '')
    {
    }

    public function fields(): array
    {
        return ['outcome' => 'drop', 'reason' => Pipe::cut($this->reason)];
    }
}
