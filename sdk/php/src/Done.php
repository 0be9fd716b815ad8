<?php

declare(strict_types=1);

namespace Streamfleet;

/** The job succeeded. A handler may also return the result itself, or nothing. */
final class Done implements Outcome
{
    /** @param mixed $result what the producer can read: anything that JSON can express, or bytes as a string */
    public function __construct(public readonly mixed $result = null)
    {
    }

    public function fields(): array
    {
        $fields = ['outcome' => 'done'];
        if (is_string($this->result) && preg_match('//u', $this->result) !== 1) {
            return $fields + ['result_base64' => base64_encode($this->result)];
        }
        return $this->result === null ? $fields : $fields + ['result' => $this->result];
    }
}
