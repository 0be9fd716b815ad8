<?php

declare(strict_types=1);

namespace Streamfleet;

/** The job is dead or cancelled, so it has no result. */
final class JobFailed extends \RuntimeException
{
}
