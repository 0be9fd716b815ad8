<?php

declare(strict_types=1);

namespace Streamfleet;

/** Thrown by a handler that does not know whether the work was done. It means Unknown, unless a rule says otherwise. */
class UnknownError extends \RuntimeException
{
}
