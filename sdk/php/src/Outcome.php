<?php

declare(strict_types=1);

namespace Streamfleet;

/** How one attempt of a job ended: Done, Retry, Unknown, Fatal, Snooze or Drop. */
interface Outcome
{
    /**
     * The fields of the `result` line that names this outcome.
     *
     * @return array<string, mixed>
     */
    public function fields(): array;
}
