<?php

// A stand-in for the coroutines of Swoole, written from its documentation: a scheduler of fibers.

declare(strict_types=1);

namespace {
    const SWOOLE_HOOK_ALL = 1;
    const SWOOLE_EVENT_READ = 512;
}

namespace Swoole {
    final class Coroutine
    {
        /** @var array<int, array{\Fiber, \Closure}> id → a coroutine that waits, and what says that it may go on */
        public static array $waiting = [];
        private static int $current = -1;
        private static int $last = 0;
        /** @var array<string, mixed> */
        public static array $options = [];

        public static function set(array $options): void
        {
            self::$options = $options;
        }

        public static function getCid(): int
        {
            return self::$current;
        }

        public static function create(callable $function, mixed ...$arguments): int
        {
            return self::resume(++self::$last, new \Fiber($function), $arguments);
        }

        /** Goes on with a coroutine until it waits again. */
        public static function resume(int $id, \Fiber $fiber, array $arguments = []): int
        {
            [$before, self::$current] = [self::$current, $id];
            $condition = $fiber->isStarted() ? $fiber->resume() : $fiber->start(...$arguments);
            self::$current = $before;
            if (!$fiber->isTerminated()) {
                self::$waiting[$id] = [$fiber, $condition];
            }
            return $id;
        }
    }
}

namespace Swoole\Coroutine {
    use Swoole\Coroutine;

    function run(callable $function): bool
    {
        Coroutine::create($function);
        while (Coroutine::$waiting !== []) {
            foreach (Coroutine::$waiting as $id => [$fiber, $condition]) {
                if ($condition()) {
                    unset(Coroutine::$waiting[$id]);
                    Coroutine::resume($id, $fiber);
                }
            }
            usleep(500);
        }
        return true;
    }

    final class System
    {
        public static function sleep(float $seconds): bool
        {
            $end = hrtime(true) + $seconds * 1e9;
            \Fiber::suspend(static fn (): bool => hrtime(true) >= $end);
            return true;
        }

        public static function waitEvent(mixed $stream, int $events, float $seconds): int|false
        {
            $end = hrtime(true) + $seconds * 1e9;
            $isReadable = static function () use ($stream): bool {
                $read = [$stream];
                $none = null;
                return (bool) @stream_select($read, $none, $none, 0);
            };
            \Fiber::suspend(static fn (): bool => $isReadable() || hrtime(true) >= $end);
            return $isReadable() ? $events : false;
        }
    }
}
