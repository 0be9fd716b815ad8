<?php

declare(strict_types=1);

namespace Streamfleet;

/**
 * The attempt failed, and nobody knows whether the work was done: an answer was lost. A `once` step becomes unknown, and a person
 * decides. Every other job is tried again, as after Retry.
 */
final class Unknown implements Outcome
{
    public function __construct(public readonly string $error)
    {
    }

    public function fields(): array
    {
        return ['outcome' => 'retry', 'unknown' => true, 'error' => Pipe::cut($this->error)];
    }
}
