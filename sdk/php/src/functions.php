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
