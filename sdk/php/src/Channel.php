<?php

declare(strict_types=1);

namespace Streamfleet;

/** @internal Where a Job says what happens, and learns whether it should end. */
interface Channel
{
    /** Sends lines to the worker. */
    public function send(string $lines): void;

    /** Why the attempt should end, as far as is known. */
    public function cancelled(string $ref): ?string;
}
