<?php

// What Composer writes: the autoloaders and files of all packages. PACKAGES is the folder sdk.

declare(strict_types=1);

define('APPLICATION', dirname(__DIR__));
$packages = (string) getenv('PACKAGES');
require_once "$packages/webman/tests/contract/workerman.php";
require_once "$packages/webman/tests/contract/redis_queue.php";
require_once "$packages/php/autoload.php";
spl_autoload_register(static function (string $class) use ($packages): void {
    foreach (['Streamfleet\\Webman\\' => "$packages/webman/src/", 'app\\' => APPLICATION . '/app/'] as $prefix => $folder) {
        $file = $folder . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;
        }
    }
});
require_once "$packages/webman/src/replace.php";
