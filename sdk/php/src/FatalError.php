<?php

declare(strict_types=1);

namespace Streamfleet;

/** Thrown by a handler whose job can never succeed. Every other exception but UnknownError means Retry, unless a rule says otherwise: see Worker::errors. */
class FatalError extends \RuntimeException
{
}
