<?php

declare(strict_types=1);

namespace Streamfleet\Webman;

use support\Container;
use Webman\RedisQueue\Consumer;

/** The consumers of an application: the classes in a folder that implement `Webman\RedisQueue\Consumer`. */
final class Consumers
{
    /**
     * @return array<string, array<string, Consumer>> connection → queue → consumer
     */
    public static function in(string $folder): array
    {
        $consumers = [];
        $files = new \RecursiveIteratorIterator(new \RecursiveDirectoryIterator($folder, \FilesystemIterator::SKIP_DOTS));
        $paths = array_filter(array_map(strval(...), iterator_to_array($files, false)), static fn (string $path): bool => str_ends_with($path, '.php'));
        sort($paths);
        foreach ($paths as $path) {
            $class = strtr(substr($path, strlen(base_path()), -strlen('.php')), '/', '\\');
            if (!is_a($class, Consumer::class, true)) {
                continue;
            }
            $consumer = Container::get($class);
            $queue = (string) ($consumer->queue ?? '');
            if ($queue === '') {
                fwrite(STDERR, "the consumer $class has no property queue, so it gets no jobs\n");
                continue;
            }
            $consumers[(string) ($consumer->connection ?? 'default')][$queue] = $consumer;
        }
        return $consumers;
    }
}
