<?php

// Loads the classes of this package without Composer.

declare(strict_types=1);

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Streamfleet\\')) {
        $file = __DIR__ . '/src/' . strtr(substr($class, strlen('Streamfleet\\')), '\\', '/') . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
});

require_once __DIR__ . '/src/functions.php';
