<?php

// Puts the classes of this package in the place of those of webman/redis-queue, if config/plugin/streamfleet/webman/app.php enables it.

declare(strict_types=1);

spl_autoload_register(static function (string $class): void {
    $ours = [
        'Webman\RedisQueue\Client' => Streamfleet\Webman\Client::class,
        'Webman\RedisQueue\Redis' => Streamfleet\Webman\Client::class,
        'Webman\RedisQueue\Process\Consumer' => Streamfleet\Webman\ConsumerProcess::class,
    ][$class] ?? null;
    if ($ours !== null && Streamfleet\Webman\Settings::isEnabled()) {
        class_alias($ours, $class);
    }
}, prepend: true);
