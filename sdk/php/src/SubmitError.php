<?php

declare(strict_types=1);

namespace Streamfleet;

/** A job was not accepted, or nobody knows whether it was. */
abstract class SubmitError extends \RuntimeException
{
}
