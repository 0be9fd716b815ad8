<?php

// A stand-in for the jobs, messages and events of hyperf/async-queue 3.2, written from its documentation and the signatures of its
// interfaces, and no more than the tests need.

declare(strict_types=1);

namespace Hyperf\AsyncQueue {
    use Hyperf\AsyncQueue\Driver\DriverFactory;
    use Hyperf\Context\ApplicationContext;
    use Hyperf\Context\Context;
    use Hyperf\Contract\CompressInterface;
    use Hyperf\Contract\UnCompressInterface;

    enum Result: string
    {
        case ACK = 'ack';
        case REQUEUE = 'requeue';
        case RETRY = 'retry';
        case DROP = 'drop';
    }

    interface JobInterface
    {
        public function fail(\Throwable $e): void;

        public function handle();

        public function setMaxAttempts(int $maxAttempts): static;

        public function getMaxAttempts(): int;

        public function getPoolName(): string;
    }

    abstract class Job implements JobInterface, CompressInterface, UnCompressInterface
    {
        protected int $maxAttempts = 0;

        public function fail(\Throwable $e): void
        {
        }

        public function setMaxAttempts(int $maxAttempts): static
        {
            $this->maxAttempts = $maxAttempts;
            return $this;
        }

        public function getMaxAttempts(): int
        {
            return $this->maxAttempts;
        }

        public function getPoolName(): string
        {
            return 'default';
        }

        public function compress(): UnCompressInterface
        {
            return $this;
        }

        public function uncompress(): CompressInterface
        {
            return $this;
        }
    }

    interface MessageInterface
    {
        public function job(): JobInterface;

        public function attempts(): bool;

        public function getAttempts(): int;
    }

    class JobMessage implements MessageInterface
    {
        protected int $attempts = 0;

        public function __construct(protected JobInterface $job)
        {
        }

        public function __serialize(): array
        {
            return ['job' => $this->job, 'attempts' => $this->attempts, 'unique' => uniqid('', true)];
        }

        public function __unserialize(array $data): void
        {
            $this->job = $data['job'] instanceof UnCompressInterface ? $data['job']->uncompress() : $data['job'];
            $this->attempts = $data['attempts'];
        }

        public function job(): JobInterface
        {
            return $this->job;
        }

        public function attempts(): bool
        {
            return $this->attempts++ < $this->job->getMaxAttempts();
        }

        public function getAttempts(): int
        {
            return $this->attempts;
        }
    }

    /** A call of a method with #[AsyncQueueMessage]. */
    class AnnotationJob extends Job
    {
        public function __construct(public string $class, public string $method, public array $params, int $maxAttempts = 0)
        {
            $this->maxAttempts = $maxAttempts;
        }

        public function handle()
        {
            $container = ApplicationContext::getContainer();
            $container->get(Environment::class)->setAsyncQueue(true);
            return $container->get($this->class)->{$this->method}(...$this->params);
        }
    }

    class Environment
    {
        public function isAsyncQueue(): bool
        {
            return (bool) Context::get(self::class, false);
        }

        public function setAsyncQueue(bool $asyncQueue): static
        {
            Context::set(self::class, $asyncQueue);
            return $this;
        }
    }

    function dispatch(JobInterface $job, ?int $delay = null, ?int $maxAttempts = null, ?string $pool = null): bool
    {
        if ($maxAttempts !== null) {
            $job->setMaxAttempts($maxAttempts);
        }
        return ApplicationContext::getContainer()->get(DriverFactory::class)->get($pool ?? $job->getPoolName())->push($job, $delay ?? 0);
    }
}

namespace Hyperf\AsyncQueue\Annotation {
    #[\Attribute(\Attribute::TARGET_CLASS | \Attribute::TARGET_METHOD)]
    class AsyncQueueMessage
    {
        public function __construct(public string $pool = 'default', public int $delay = 0, public int $maxAttempts = 0)
        {
        }
    }
}

namespace Hyperf\AsyncQueue\Exception {
    class InvalidQueueException extends \RuntimeException
    {
    }
}

namespace Hyperf\AsyncQueue\Event {
    use Hyperf\AsyncQueue\Driver\DriverInterface;
    use Hyperf\AsyncQueue\MessageInterface;
    use Hyperf\AsyncQueue\Result;

    abstract class Event
    {
        public function __construct(private MessageInterface $message)
        {
        }

        public function getMessage(): MessageInterface
        {
            return $this->message;
        }
    }

    class BeforeHandle extends Event
    {
    }

    class AfterHandle extends Event
    {
        public function __construct(MessageInterface $message, public Result $result)
        {
            parent::__construct($message);
        }
    }

    class RetryHandle extends Event
    {
        public function __construct(MessageInterface $message, private \Throwable $throwable)
        {
            parent::__construct($message);
        }

        public function getThrowable(): \Throwable
        {
            return $this->throwable;
        }
    }

    class FailedHandle extends RetryHandle
    {
    }

    class QueueLength
    {
        public function __construct(public DriverInterface $driver, public string $key, public int $length)
        {
        }
    }
}
