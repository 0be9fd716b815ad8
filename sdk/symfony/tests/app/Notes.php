<?php

declare(strict_types=1);

namespace App;

/** What happens is noted in a file, by which the test compares transports. */
final class Notes
{
    public static function add(string $what): void
    {
        file_put_contents(getenv('APP_VAR') . '/notes', sprintf("%.3f %s\n", microtime(true), $what), FILE_APPEND | LOCK_EX);
    }
}
