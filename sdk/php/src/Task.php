<?php

declare(strict_types=1);

namespace Streamfleet;

/**
 * A job as an object: its public properties are the payload, and `handle` does the work. Properties are scalars, arrays, null,
 * backed enums or dates.
 */
abstract class Task
{
    /** Does the work. Returns an Outcome, or else the result. */
    abstract public function handle(Job $job): mixed;

    /**
     * Submits a new task by the default producer, such as SendMail::dispatch('ann@example.com').
     *
     * @param mixed ...$arguments those of the constructor
     */
    public static function dispatch(mixed ...$arguments): string
    {
        return dispatch(new static(...$arguments));
    }
}
