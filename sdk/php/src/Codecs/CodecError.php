<?php

declare(strict_types=1);

namespace Streamfleet\Codecs;

/** A payload cannot be encoded or decoded. A job is tried again then by the policy of its type: a key or an object may arrive. */
final class CodecError extends \RuntimeException
{
}
