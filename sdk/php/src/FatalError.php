<?php

declare(strict_types=1);

namespace Streamfleet;

/** Thrown by a handler whose job can never succeed. Every other exception means Retry. */
class FatalError extends \RuntimeException
{
}
