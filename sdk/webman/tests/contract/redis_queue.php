<?php

// A stand-in for webman/redis-queue 2, written from its documentation: lists `{redis-queue}-waiting…` and `{redis-queue}-failed`, the set
// `{redis-queue}-delayed`, consumers that are asked one after the other. Each class comes from the autoloader, as in the package.

declare(strict_types=1);

namespace Workerman\RedisQueue {
    class UnretryableException extends \RuntimeException
    {
    }
}

namespace Webman\RedisQueue {
    interface Consumer
    {
        public function consume($data);
    }
}

namespace Contract {
    use support\Container;
    use Webman\RedisQueue\Consumer;
    use Workerman\RedisQueue\UnretryableException;
    use Workerman\Timer;

    /** Both of the package's clients, of which one waits for the reply of Redis and the other does not. */
    final class Client
    {
        private const KEYS = '{redis-queue}-';
        private \Redis $redis;

        private function __construct(public readonly array $options, string $host)
        {
            $this->redis = new \Redis();
            $this->redis->connect(parse_url($host, PHP_URL_HOST), parse_url($host, PHP_URL_PORT));
        }

        public static function connection(string $name = 'default'): self
        {
            static $connections = [];
            $section = config('plugin.webman.redis-queue.redis')[$name];
            return $connections[$name . getmypid()] ??= new self($section['options'], $section['host']);
        }

        public static function __callStatic(string $name, array $arguments): mixed
        {
            return self::connection()->__call($name, $arguments);
        }

        public function __call(string $name, array $arguments): mixed
        {
            [$queue, $data, $delay] = $arguments + ['', null, 0];
            $this->store(['id' => uniqid('', true), 'time' => time(), 'delay' => $delay, 'attempts' => 0, 'queue' => $queue, 'data' => $data], $delay);
            return true;
        }

        /** The next job of these queues. */
        public function next(array $queues): ?array
        {
            foreach ($this->redis->zRangeByScore(self::KEYS . 'delayed', '-inf', (string) time()) as $due) {
                if ($this->redis->zRem(self::KEYS . 'delayed', $due)) {
                    $this->redis->lPush(self::KEYS . 'waiting' . json_decode($due, true)['queue'], $due);
                }
            }
            foreach ($queues as $queue) {
                $text = $this->redis->rPop(self::KEYS . "waiting$queue");
                if ($text !== false) {
                    return json_decode($text, true);
                }
            }
            return null;
        }

        public function retry(array $package): void
        {
            $this->store($package, $this->options['retry_seconds'] * $package['attempts']);
        }

        public function fail(array $package): void
        {
            $this->redis->lPush(self::KEYS . 'failed', json_encode($package));
        }

        private function store(array $package, int $delay): void
        {
            if ($delay > 0) {
                $this->redis->zAdd(self::KEYS . 'delayed', time() + $delay, json_encode($package));
            } else {
                $this->redis->lPush(self::KEYS . "waiting{$package['queue']}", json_encode($package));
            }
        }
    }

    /** The package's process. */
    final class ConsumerProcess
    {
        /** @var array<string, array<string, Consumer>> connection → queue → consumer */
        private array $consumers = [];

        public function __construct(private string $consumer_dir = '')
        {
        }

        public function onWorkerStart(object $worker): void
        {
            foreach (new \RecursiveIteratorIterator(new \RecursiveDirectoryIterator($this->consumer_dir, \FilesystemIterator::SKIP_DOTS)) as $file) {
                $class = strtr(substr((string) $file, strlen(base_path()), -4), '/', '\\');
                if (is_a($class, Consumer::class, true)) {
                    $consumer = Container::get($class);
                    $this->consumers[$consumer->connection ?? 'default'][$consumer->queue] = $consumer;
                }
            }
            Timer::add(0.02, $this->look(...));
        }

        private function look(): void
        {
            foreach ($this->consumers as $connection => $consumers) {
                while (($package = Client::connection($connection)->next(array_keys($consumers))) !== null) {
                    $this->consume(Client::connection($connection), $consumers[$package['queue']], $package);
                }
            }
        }

        private function consume(Client $client, Consumer $consumer, array $package): void
        {
            try {
                $consumer->consume($package['data']);
            } catch (\Throwable $error) {
                $package = ['max_attempts' => $client->options['max_attempts'], 'error' => $error->getMessage()] + $package;
                if ($error instanceof UnretryableException) {
                    $client->fail($package);
                    return;
                }
                $changed = method_exists($consumer, 'onConsumeFailure') ? $consumer->onConsumeFailure($error, $package) : null;
                $package = (is_array($changed) ? $changed : []) + $package;
                $package['attempts'] += 1;
                $package['attempts'] > $package['max_attempts'] ? $client->fail($package) : $client->retry($package);
            }
        }
    }
}

namespace {
    spl_autoload_register(static function (string $class): void {
        $stand = ['Webman\RedisQueue\Client' => Contract\Client::class, 'Webman\RedisQueue\Redis' => Contract\Client::class, 'Webman\RedisQueue\Process\Consumer' => Contract\ConsumerProcess::class][$class] ?? null;
        if ($stand !== null) {
            class_alias($stand, $class);
        }
    });
}
