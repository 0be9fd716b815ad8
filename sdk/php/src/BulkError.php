<?php

declare(strict_types=1);

namespace Streamfleet;

/** Not all jobs of a bulk submission were accepted. The keys are those of the submissions. */
final class BulkError extends SubmitError
{
    /**
     * @param array<int|string, string> $accepted key → the job's id
     * @param array<int|string, string> $refused key → why: these jobs were not accepted
     * @param array<int|string, string> $unknown key → why nobody knows whether the job was accepted
     */
    public function __construct(
        public readonly array $accepted,
        public readonly array $refused,
        public readonly array $unknown,
    ) {
        $why = reset($refused) ?: reset($unknown);
        parent::__construct(sprintf(
            '%d jobs were accepted, %d were refused, and %d may have been accepted: %s',
            count($accepted),
            count($refused),
            count($unknown),
            $why,
        ));
    }
}
