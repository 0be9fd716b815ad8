<?php

declare(strict_types=1);

namespace Streamfleet;

/**
 * The job was not accepted, and is not to blame: Redis refused it, such as with OOM or READONLY, or Cli could not be started, is
 * configured wrongly, or does not reach Redis. Try again later.
 */
final class Refused extends SubmitError
{
}
