<?php

declare(strict_types=1);

namespace Streamfleet;

if (!function_exists('Streamfleet\dispatch')) {
    /** Submits a task by the producer that Tasks::submitBy has set, and returns the job's id. */
    function dispatch(object $task, mixed ...$options): string
    {
        return Tasks::producer()->dispatch($task, ...$options);
    }
}

// Before a framework opens standard output. The name is that of Inbox::VARIABLE, whose class most processes do not need.
if (getenv('STREAMFLEET_INBOX') === '1') {
    Inbox::openForFramework();
}
