<?php

// A stand-in for the event loop of Revolt, written from its documentation: what the runtime of this package uses.

declare(strict_types=1);

namespace Revolt {
    final class EventLoop
    {
        /** @var list<\Closure> */
        private static array $queued = [];
        /** @var array<string, array{float, \Closure}> id → when, and what is called then */
        private static array $timers = [];
        /** @var array<string, array{resource, \Closure}> */
        private static array $streams = [];
        private static int $last = 0;

        public static function queue(\Closure $closure, mixed ...$arguments): void
        {
            self::$queued[] = static fn () => $closure(...$arguments);
        }

        public static function delay(float $delay, \Closure $closure): string
        {
            $id = 'd' . ++self::$last;
            self::$timers[$id] = [hrtime(true) / 1e9 + $delay, $closure];
            return $id;
        }

        public static function onReadable(mixed $stream, \Closure $closure): string
        {
            $id = 'r' . ++self::$last;
            self::$streams[$id] = [$stream, $closure];
            return $id;
        }

        public static function cancel(string $id): void
        {
            unset(self::$timers[$id], self::$streams[$id]);
        }

        public static function getSuspension(): EventLoop\Suspension
        {
            return new EventLoop\Suspension(\Fiber::getCurrent());
        }

        /** One turn: everything that is due, each in a fiber of its own. */
        public static function tick(): void
        {
            foreach (array_splice(self::$queued, 0) as $closure) {
                (new \Fiber($closure))->start();
            }
            foreach (self::$timers as $id => [$due, $closure]) {
                if ($due <= hrtime(true) / 1e9 && isset(self::$timers[$id])) {
                    unset(self::$timers[$id]);
                    (new \Fiber($closure))->start($id);
                }
            }
            foreach (self::$streams as $id => [$stream, $closure]) {
                [$read, $none] = [[$stream], null];
                if (isset(self::$streams[$id]) && @stream_select($read, $none, $none, 0)) {
                    (new \Fiber($closure))->start($id, $stream);
                }
            }
            usleep(500);
        }
    }
}

namespace Revolt\EventLoop {
    use Revolt\EventLoop;

    final class Suspension
    {
        private bool $isPending = false;
        private mixed $value = null;

        public function __construct(private readonly ?\Fiber $fiber)
        {
        }

        public function resume(mixed $value = null): void
        {
            if (!$this->isPending) {
                throw new \Error('resume() without suspend()');
            }
            $this->isPending = false;
            $this->value = $value;
            if ($this->fiber !== null) {
                EventLoop::queue(fn () => $this->fiber->resume());
            }
        }

        public function suspend(): mixed
        {
            $this->isPending = true;
            if ($this->fiber !== null) {
                \Fiber::suspend();
            } else {
                while ($this->isPending) {
                    EventLoop::tick();
                }
            }
            return $this->value;
        }
    }
}
