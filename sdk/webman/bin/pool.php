<?php

// The program of a pool. Only a worker starts it: php pool.php FOLDER_OF_THE_APPLICATION FOLDER_OF_CONSUMERS CONNECTION

declare(strict_types=1);

[, $application, $folder, $connection] = $argv + ['', '', '', ''];
if (!is_file("$application/vendor/autoload.php") || !is_file("$application/support/bootstrap.php")) {
    fwrite(STDERR, "only the worker of a fleet starts this program, in its pool: start php start.php start\n");
    exit(64);
}
// As a script beside webman does: see the section about custom scripts in its documentation.
require "$application/vendor/autoload.php";
(static function (string $file): void {
    require $file;
})("$application/support/bootstrap.php");

$inbox = Streamfleet\Inbox::ofFramework();
if ($inbox === null) {
    fwrite(STDERR, "only the worker of a fleet starts this program, in its pool: start php start.php start\n");
    exit(64);
}
(new Streamfleet\Webman\Pool($inbox, $connection, Streamfleet\Webman\Consumers::in($folder)[$connection] ?? []))->run();
