<?php

declare(strict_types=1);

namespace App\Message;

/** Messages that are handled later. */
interface Async
{
}
