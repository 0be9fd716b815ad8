<?php

declare(strict_types=1);

namespace Streamfleet;

/** What became of a submission by Cli. */
final class Accepted
{
    /**
     * @param string $id the job: the new one, or the one that existed
     * @param string $state its state
     * @param bool $isNew false if the id was known, or another job holds the unique key: nothing was submitted
     * @param ?string $replaced the job that this one replaces
     * @param bool $isDebounced true if the job that holds the key got the new payload and time
     */
    public function __construct(
        public readonly string $id,
        public readonly string $state,
        public readonly bool $isNew,
        public readonly ?string $replaced,
        public readonly bool $isDebounced,
    ) {
    }
}
