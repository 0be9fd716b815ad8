<?php

declare(strict_types=1);

namespace Streamfleet;

/** A job that breaks a rule of the wire contract. Nothing was sent. */
final class InvalidSubmission extends \InvalidArgumentException
{
}
