<?php

declare(strict_types=1);

namespace Streamfleet\Hyperf;

use Hyperf\AsyncQueue\Environment;
use Hyperf\AsyncQueue\Event\AfterHandle;
use Hyperf\AsyncQueue\Event\BeforeHandle;
use Hyperf\AsyncQueue\Event\FailedHandle;
use Hyperf\AsyncQueue\Event\RetryHandle;
use Hyperf\AsyncQueue\MessageInterface;
use Hyperf\AsyncQueue\Result;
use Psr\Container\ContainerInterface;
use Psr\EventDispatcher\EventDispatcherInterface;
use Streamfleet\Done;
use Streamfleet\Drop;
use Streamfleet\Fatal;
use Streamfleet\Inbox;
use Streamfleet\Outcome;
use Streamfleet\Retry;
use Streamfleet\Runtime\Swoole;
use Streamfleet\Snooze;

/** The loop of a program of a pool: it works on several jobs at once in coroutines of Swoole, and elsewhere on one after the other. */
final class Consumer
{
    /** How long it waits for the next job before it looks again, in seconds: with others beside it, and alone. */
    private const TURN = 0.05;
    private const WAIT = 1.0;
    /** How long it lets coroutines go on when it cannot take another job, in seconds. */
    private const REST = 0.002;

    /**
     * @param \Closure(): void $tellLength tells the listeners how long the queue is
     * @param int $tellEvery after how many jobs
     */
    public function __construct(
        private readonly ContainerInterface $container,
        private readonly ?EventDispatcherInterface $events,
        private readonly StreamfleetDriver $driver,
        private readonly Settings $settings,
        private readonly \Closure $tellLength,
        private readonly int $tellEvery,
    ) {
    }

    /** Works until the worker has no more jobs, asks to stop, or `max_messages` jobs have begun. */
    public function run(): void
    {
        $inbox = Inbox::ofFramework() ?? throw new \LogicException('only the worker of a fleet starts this command, in its pool: start php bin/hyperf.php, or php bin/hyperf.php streamfleet:work');
        $runtime = self::runtime();
        if ($runtime !== null) {
            $inbox->waitBy($runtime->wait(...));
        }
        if (function_exists('pcntl_signal')) {
            pcntl_async_signals(true);
            pcntl_signal(SIGTERM, $inbox->stop(...));
        }
        $jobs = 0;
        // This also gives back what arrives while the program stops.
        while (!$inbox->ended() || $inbox->isBusy()) {
            if ($runtime !== null && ($inbox->ended() || $inbox->inflight() >= $this->settings->limit)) {
                $runtime->pause(self::REST);
                continue;
            }
            $jobs += $this->next($runtime, $jobs);
            if ($this->settings->maxMessages > 0 && $jobs >= $this->settings->maxMessages) {
                $inbox->stop();
            }
        }
        $inbox->end();
    }

    /** Begins a job, or runs it if nothing runs beside it. The number of jobs: 0 if there is none yet. */
    private function next(?Swoole $runtime, int $before): int
    {
        $delivery = $this->driver->take($runtime === null ? self::WAIT : self::TURN, $runtime === null ? 1 : $this->settings->limit);
        if ($delivery === null) {
            return 0;
        }
        if ($runtime === null) {
            // Without a coroutine of its own, a job finds what the one before has said about it.
            $this->container->get(Environment::class)->setAsyncQueue(false);
            $this->work($delivery);
        } else {
            $runtime->go(fn () => $this->work($delivery));
        }
        if (($before + 1) % $this->tellEvery === 0) {
            $this->guarded($this->tellLength, 'a listener of QueueLength');
        }
        return 1;
    }

    private function work(Delivery $delivery): void
    {
        $delivery->settle($this->outcome($delivery));
    }

    /** What becomes of a job, with the events that Hyperf's own driver tells. */
    private function outcome(Delivery $delivery): Outcome
    {
        try {
            $message = $delivery->message();
        } catch (\Throwable $error) {
            return $this->unreadable($delivery, $error);
        }
        try {
            $this->events?->dispatch(new BeforeHandle($message));
            $returned = $message->job()->handle();
            // Hyperf before 3.2 has no results.
            $result = $returned instanceof Result ? $returned : (enum_exists(Result::class) ? Result::ACK : null);
            $this->events?->dispatch($result === null ? new AfterHandle($message) : new AfterHandle($message, $result));
            return match ($result?->value ?? 'ack') {
                'ack' => new Done(null),
                'requeue' => new Snooze(0, 'the job returned Result::REQUEUE'),
                'retry' => $this->retried($message, null, 'the job returned Result::RETRY'),
                'drop' => new Drop('the job returned Result::DROP'),
            };
        } catch (\Throwable $error) {
            fwrite(STDERR, "{$delivery->id()}: $error\n");
            return $this->retried($message, $error, self::reason($error));
        }
    }

    /** What becomes of a job that could not be unpacked: it is dead if it never can be, and else tried again, as when its database is away. */
    public function unreadable(Delivery $delivery, \Throwable $error): Outcome
    {
        fwrite(STDERR, "{$delivery->id()}: $error\n");
        return $error instanceof \UnexpectedValueException ? new Fatal($error->getMessage()) : new Retry(self::reason($error), $this->settings->retrySeconds($delivery->attempt()));
    }

    /** A job that has failed runs again, as often as it says. */
    private function retried(MessageInterface $message, ?\Throwable $error, string $reason): Outcome
    {
        if ($message->attempts()) {
            if ($error !== null) {
                $this->guarded(fn () => $this->events?->dispatch(new RetryHandle($message, $error)), 'a listener of RetryHandle');
            }
            return new Retry($reason, $this->settings->retrySeconds($message->getAttempts()));
        }
        $error ??= new \RuntimeException($reason);
        $this->guarded(fn () => $this->events?->dispatch(new FailedHandle($message, $error)), 'a listener of FailedHandle');
        $job = $message->job();
        // Hyperf before 3.1.20 has no such method.
        if (method_exists($job, 'fail')) {
            $this->guarded(fn () => $job->fail($error), $job::class . '::fail()');
        }
        return new Fatal($reason);
    }

    private static function reason(\Throwable $error): string
    {
        return $error::class . ": {$error->getMessage()} ({$error->getFile()}:{$error->getLine()})";
    }

    /** Calls what cannot change what becomes of the job. */
    private function guarded(\Closure $call, string $what): void
    {
        try {
            $call();
        } catch (\Throwable $error) {
            fwrite(STDERR, "$what failed: $error\n");
        }
    }

    /** What runs coroutines, if a command of Hyperf is in one. */
    private static function runtime(): ?Swoole
    {
        if (!Swoole::isLoaded() && !class_exists('Swoole\Coroutine', false)) {
            return null;
        }
        $swoole = new Swoole();
        return $swoole->isInside() ? $swoole : null;
    }
}
