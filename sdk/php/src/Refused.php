<?php

declare(strict_types=1);

namespace Streamfleet;

/** Redis refused the job, such as with OOM or READONLY: it was not accepted. Try again later. */
final class Refused extends SubmitError
{
}
