<?php

declare(strict_types=1);

namespace Streamfleet\Webman;

use Streamfleet\WorkerProcess;
use Workerman\Timer;

/**
 * The process of `config/plugin/webman/redis-queue/process.php`, in the place of `Webman\RedisQueue\Process\Consumer`: the first of its
 * `count` processes watches a worker of the fleet for each connection, whose pool has as many programs.
 */
class ConsumerProcess
{
    /** How often it looks after its workers, and how long one that has ended rests before it starts again, in seconds. */
    private const LOOK = 1;
    private const REST = 5;

    /** @var array<string, WorkerProcess> connection → its worker */
    private array $workers = [];
    /** @var array<string, float> connection → when its worker was started */
    private array $started = [];
    /** @var array<string, list<string>> connection → the queues of the fleet */
    private array $queues = [];
    private int $processes = 1;

    public function __construct(private readonly string $consumer_dir = '')
    {
    }

    public function onWorkerStart(object $worker): void
    {
        if (($worker->id ?? 0) !== 0) {
            return;
        }
        $this->processes = max(1, (int) ($worker->count ?? 1));
        if (!is_dir($this->consumer_dir)) {
            fwrite(STDERR, "there is no folder {$this->consumer_dir}, which consumer_dir in config/plugin/webman/redis-queue/process.php names\n");
            return;
        }
        foreach (Consumers::in($this->consumer_dir) as $connection => $consumers) {
            $settings = Settings::of($connection);
            $this->queues[$connection] = array_values(array_unique(array_map($settings->queue(...), array_map(strval(...), array_keys($consumers)))));
        }
        array_map($this->start(...), array_keys($this->queues));
        Timer::add(self::LOOK, $this->look(...));
    }

    /** With `reloadable` in process.php, webman replaces this process, and with it the workers. Without, their programs are replaced. */
    public function onWorkerReload(object $worker): void
    {
        if (!($worker->reloadable ?? true)) {
            array_walk($this->workers, static fn (WorkerProcess $each) => $each->reload());
        }
    }

    /** Lets all jobs end. If that takes longer than stop_timeout in config/server.php, webman ends this process, and the worker lets them end. */
    public function onWorkerStop(object $worker): void
    {
        $this->queues = [];
        array_walk($this->workers, static fn (WorkerProcess $each) => $each->stop());
        while (array_filter($this->workers, static fn (WorkerProcess $each): bool => $each->isRunning()) !== []) {
            usleep(50_000);
        }
    }

    /** Starts workers again that have ended. */
    private function look(): void
    {
        foreach (array_keys($this->queues) as $connection) {
            $worker = $this->workers[$connection] ?? null;
            if ($worker?->isRunning() || hrtime(true) / 1e9 - $this->started[$connection] < self::REST) {
                continue;
            }
            if ($worker !== null) {
                fwrite(STDERR, "the streamfleet worker of the connection $connection has ended with status {$worker->code()}, and is started again\n");
            }
            $this->start($connection);
        }
    }

    private function start(string $connection): void
    {
        $command = [PHP_BINARY, dirname(__DIR__) . '/bin/pool.php', base_path(), $this->consumer_dir, $connection];
        $this->started[$connection] = hrtime(true) / 1e9;
        unset($this->workers[$connection]);
        try {
            $this->workers[$connection] = Settings::of($connection)->launcher($this->queues[$connection], $this->processes)->start($command, Client::TYPE);
        } catch (\RuntimeException | \InvalidArgumentException $error) {
            fwrite(STDERR, "the streamfleet worker of the connection $connection cannot start: {$error->getMessage()}\n");
        }
    }
}
