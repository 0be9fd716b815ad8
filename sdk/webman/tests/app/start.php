#!/usr/bin/env php
<?php

// The application's server, of which only the processes of config/plugin/webman/redis-queue/process.php are there.

declare(strict_types=1);

use support\Container;
use Workerman\Worker;

chdir(__DIR__);
require __DIR__ . '/vendor/autoload.php';

file_put_contents(__DIR__ . '/webman.pid', getmypid());
Worker::$stopTimeout = (float) (getenv('STOP_TIMEOUT') ?: 10);
foreach (config('plugin.webman.redis-queue.process') as $name => $config) {
    $worker = new Worker();
    $worker->name = "plugin.webman.redis-queue.$name";
    $worker->count = $config['count'];
    $worker->reloadable = $config['reloadable'] ?? true;
    $worker->onWorkerStart = static function (Worker $worker) use ($config): void {
        require_once __DIR__ . '/support/bootstrap.php';
        $handler = Container::make($config['handler'], $config['constructor']);
        foreach (['onWorkerReload', 'onWorkerStop'] as $callback) {
            if (method_exists($handler, $callback)) {
                $worker->$callback = $handler->$callback(...);
            }
        }
        $handler->onWorkerStart($worker);
    };
}
Worker::runAll();
