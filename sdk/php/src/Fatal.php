<?php

declare(strict_types=1);

namespace Streamfleet;

/** The job can never succeed: it becomes a dead letter at once. */
final class Fatal implements Outcome
{
    public function __construct(public readonly string $error)
    {
    }

    public function fields(): array
    {
        return ['outcome' => 'fatal', 'error' => Pipe::cut($this->error)];
    }
}
