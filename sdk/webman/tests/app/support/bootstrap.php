<?php

declare(strict_types=1);

set_error_handler(static function (int $level, string $message, string $file = '', int $line = 0): bool {
    if (error_reporting() & $level) {
        throw new ErrorException($message, 0, $level, $file, $line);
    }
    return false;
});
