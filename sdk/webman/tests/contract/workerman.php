<?php

// A stand-in for what a process of webman needs of Workerman and webman: processes that are forked, stopped and reloaded, timers,
// configuration, a container. It is written from their documentation, and does no more than the tests need.

declare(strict_types=1);

namespace Workerman {
    /** A kind of process. The master starts `count` of them, and starts each again that ends. */
    final class Worker
    {
        public string $name = '';
        public int $count = 1;
        public bool $reloadable = true;
        /** Which of the `count` processes this is. */
        public int $id = 0;
        public ?\Closure $onWorkerStart = null;
        public mixed $onWorkerReload = null;
        public mixed $onWorkerStop = null;
        public static float $stopTimeout = 2;
        /** @var list<self> */
        private static array $all = [];
        private static bool $isStopping = false;
        private static bool $isReloading = false;

        public function __construct()
        {
            self::$all[] = $this;
        }

        public static function runAll(): void
        {
            pcntl_async_signals(true);
            foreach ([SIGINT, SIGTERM] as $signal) {
                pcntl_signal($signal, static fn () => self::$isStopping = true);
            }
            pcntl_signal(SIGUSR1, static fn () => self::$isReloading = true);
            /** @var array<int, self> */
            $running = [];
            foreach (self::$all as $worker) {
                for ($id = 0; $id < $worker->count; $id++) {
                    $running[$worker->fork($id)] = [$worker, $id];
                }
            }
            while (!self::$isStopping) {
                $pid = pcntl_waitpid(-1, $status, WNOHANG);
                if ($pid > 0 && isset($running[$pid])) {
                    [$worker, $id] = $running[$pid];
                    unset($running[$pid]);
                    $running[$worker->fork($id)] = [$worker, $id];
                }
                if (self::$isReloading) {
                    self::$isReloading = false;
                    array_map(static fn (int $pid): bool => posix_kill($pid, SIGUSR1), array_keys($running));
                }
                usleep(20_000);
            }
            self::end(array_keys($running), SIGINT);
        }

        private function fork(int $id): int
        {
            $pid = pcntl_fork();
            if ($pid > 0) {
                return $pid;
            }
            $isStopping = false;
            pcntl_signal(SIGINT, static function () use (&$isStopping): void {
                $isStopping = true;
            });
            pcntl_signal(SIGTERM, SIG_DFL);
            pcntl_signal(SIGUSR1, function () use (&$isStopping): void {
                if ($this->onWorkerReload !== null) {
                    ($this->onWorkerReload)($this);
                }
                $isStopping = $isStopping || $this->reloadable;
            });
            Timer::clear();
            $this->id = $id;
            ($this->onWorkerStart)($this);
            while (!$isStopping) {
                Timer::tick();
                usleep(20_000);
            }
            if ($this->onWorkerStop !== null) {
                ($this->onWorkerStop)($this);
            }
            exit(0);
        }

        /** @param list<int> $pids */
        private static function end(array $pids, int $signal): void
        {
            array_map(static fn (int $pid): bool => posix_kill($pid, $signal), $pids);
            for ($end = hrtime(true) + self::$stopTimeout * 1e9; $pids !== [] && hrtime(true) < $end; usleep(10_000)) {
                $pids = array_filter($pids, static fn (int $pid): bool => pcntl_waitpid($pid, $status, WNOHANG) === 0);
            }
            array_map(static fn (int $pid): bool => posix_kill($pid, SIGKILL), $pids);
        }
    }

    final class Timer
    {
        /** @var array<int, array{float, float, \Closure, bool}> id → seconds, when next, what, whether again */
        private static array $timers = [];
        private static int $last = 0;

        /** Without an event loop: timers run by an alarm, each second. */
        public static function init(?object $event = null): void
        {
            pcntl_signal(SIGALRM, static function (): void {
                pcntl_alarm(1);
                self::tick();
            });
            pcntl_alarm(1);
        }

        public static function add(float $interval, callable $func, array $args = [], bool $persistent = true): int
        {
            self::$timers[++self::$last] = [$interval, hrtime(true) / 1e9 + $interval, static fn () => $func(...$args), $persistent];
            return self::$last;
        }

        public static function clear(): void
        {
            self::$timers = [];
        }

        public static function tick(): void
        {
            foreach (self::$timers as $id => [$interval, $due, $func, $persistent]) {
                if ($due > hrtime(true) / 1e9) {
                    continue;
                }
                if ($persistent) {
                    self::$timers[$id][1] = hrtime(true) / 1e9 + $interval;
                } else {
                    unset(self::$timers[$id]);
                }
                $func();
            }
        }
    }
}

namespace support {
    final class Container
    {
        /** @var array<class-string, object> */
        private static array $objects = [];

        public static function get(string $class): object
        {
            return self::$objects[$class] ??= new $class();
        }

        public static function make(string $class, array $parameters = []): object
        {
            return new $class(...$parameters);
        }
    }

    final class Log
    {
        public static function channel(string $name): self
        {
            return new self();
        }

        public function info(string $text): void
        {
            fwrite(STDERR, "[info] $text\n");
        }
    }
}

namespace {
    function base_path(): string
    {
        return \APPLICATION;
    }

    function app_path(): string
    {
        return base_path() . '/app';
    }

    /** A value of the files in `config`: `plugin.webman.redis-queue.redis` is config/plugin/webman/redis-queue/redis.php. */
    function config(?string $key = null, mixed $default = null): mixed
    {
        $parts = explode('.', (string) $key);
        for ($names = count($parts); $names > 0; $names--) {
            $file = base_path() . '/config/' . implode('/', array_slice($parts, 0, $names)) . '.php';
            if (!is_file($file)) {
                continue;
            }
            $value = require $file;
            foreach (array_slice($parts, $names) as $part) {
                $value = is_array($value) ? $value[$part] ?? null : null;
            }
            return $value ?? $default;
        }
        return $default;
    }
}
