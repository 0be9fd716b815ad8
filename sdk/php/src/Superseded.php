<?php

declare(strict_types=1);

namespace Streamfleet;

/** A later attempt of the job has done the work, so this one is outdated: nothing that it reports counts any more. */
final class Superseded extends \RuntimeException
{
}
