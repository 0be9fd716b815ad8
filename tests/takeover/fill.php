<?php

// Fills a queue of Laravel with its own package, and queues of Hyperf and webman with messages as those write them. Prints how many failed jobs it has.

namespace Hyperf\AsyncQueue {
    final class JobMessage
    {
        protected int $attempts = 1;

        public function __construct(protected object $job)
        {
        }
    }
}

namespace App {
    final class SendMail
    {
        public $queue = null;

        public function __construct(public int $n)
        {
        }

        public function handle(): void
        {
        }
    }
}

namespace {
    [, $system, $url, $jobs, $failed] = $argv;
    $address = parse_url($url);
    $redis = new Redis();
    $redis->connect($address['host'], $address['port']);

    /** Pushes many elements at once. */
    function push(Redis $redis, string $key, int $count, callable $element): void
    {
        for ($first = 0; $first < $count; $first += 1000) {
            $redis->lPush($key, ...array_map($element, range($first, min($first + 1000, $count) - 1)));
        }
    }

    if ($system === 'laravel') {
        require '/usr/share/php/Illuminate/Queue/autoload.php';
        require '/usr/share/php/Illuminate/Redis/autoload.php';
        $container = new Illuminate\Container\Container();
        $factory = new Illuminate\Redis\RedisManager($container, 'phpredis', ['default' => ['host' => $address['host'], 'port' => $address['port'], 'database' => 0]]);
        $queue = new Illuminate\Queue\RedisQueue($factory, 'mail');
        $queue->setContainer($container);
        for ($n = 0; $n < $jobs; $n++) {
            $queue->push(new App\SendMail($n), '', 'mail');
        }
        echo 0;
    } elseif ($system === 'hyperf') {
        $message = fn (int $n) => serialize(new Hyperf\AsyncQueue\JobMessage(new App\SendMail($n)));
        push($redis, '{mail}:waiting', (int) $jobs, $message);
        push($redis, '{mail}:failed', (int) $failed, $message);
        echo $failed;
    } else {
        $message = fn (int $n) => json_encode(['id' => "$n", 'time' => time(), 'delay' => 0, 'attempts' => 5, 'queue' => 'mail', 'data' => ['n' => $n], 'error' => 'no route']);
        push($redis, '{redis-queue}-waitingmail', (int) $jobs, $message);
        push($redis, '{redis-queue}-failed', (int) $failed, $message);
        echo $failed;
    }
}
