<?php

// A stand-in for the drivers, the process and the commands of hyperf/async-queue 3.2: see queue.php. Hyperf's own driver is as its
// documentation describes it, without the set `reserved`, which only matters when a process dies.

declare(strict_types=1);

namespace Hyperf\AsyncQueue\Driver {
    use Hyperf\AsyncQueue\Event\AfterHandle;
    use Hyperf\AsyncQueue\Event\BeforeHandle;
    use Hyperf\AsyncQueue\Event\FailedHandle;
    use Hyperf\AsyncQueue\Event\QueueLength;
    use Hyperf\AsyncQueue\Event\RetryHandle;
    use Hyperf\AsyncQueue\JobInterface;
    use Hyperf\AsyncQueue\JobMessage;
    use Hyperf\AsyncQueue\MessageInterface;
    use Hyperf\AsyncQueue\Result;
    use Hyperf\Codec\Packer\PhpSerializerPacker;
    use Hyperf\Contract\ConfigInterface;
    use Hyperf\Contract\PackerInterface;
    use Hyperf\Process\ProcessManager;
    use Hyperf\Redis\RedisFactory;
    use Psr\Container\ContainerInterface;
    use Psr\EventDispatcher\EventDispatcherInterface;

    use function Hyperf\Support\make;

    interface DriverInterface
    {
        public function push(JobInterface $job, int $delay = 0): bool;

        public function delete(JobInterface $job): bool;

        public function pop(): array;

        public function ack(mixed $data): bool;

        public function fail(mixed $data): bool;

        public function consume(): void;

        public function reload(?string $queue = null): int;

        public function flush(?string $queue = null): bool;

        public function info(): array;
    }

    abstract class Driver implements DriverInterface
    {
        protected PackerInterface $packer;
        protected ?EventDispatcherInterface $event = null;
        protected int $lengthCheckCount = 500;

        public function __construct(protected ContainerInterface $container, protected array $config)
        {
            $this->packer = $container->get($config['packer'] ?? PhpSerializerPacker::class);
            $this->event = $container->get(EventDispatcherInterface::class);
        }

        abstract protected function retry(MessageInterface $message): bool;

        abstract protected function remove(mixed $data): bool;

        protected function checkQueueLength(): void
        {
            foreach ($this->info() as $key => $length) {
                $this->event?->dispatch(new QueueLength($this, $key, $length));
            }
        }
    }

    /** Hyperf's own driver: the lists `waiting`, `failed` and `timeout`, and the set `delayed`. */
    class RedisDriver extends Driver
    {
        private const WAIT = 1;

        public function push(JobInterface $job, int $delay = 0): bool
        {
            return $this->store($this->packer->pack(new JobMessage($job)), $delay);
        }

        public function delete(JobInterface $job): bool
        {
            return (bool) $this->redis('zRem', 'delayed', $this->packer->pack(new JobMessage($job)));
        }

        public function pop(): array
        {
            foreach ($this->redis('zRangeByScore', 'delayed', '-inf', (string) time()) as $due) {
                if ($this->redis('zRem', 'delayed', $due)) {
                    $this->redis('lPush', 'waiting', $due);
                }
            }
            $data = $this->redis('brPop', 'waiting', self::WAIT)[1] ?? null;
            return $data === null ? [false, null] : [$data, $this->packer->unpack($data)];
        }

        public function ack(mixed $data): bool
        {
            return true;
        }

        public function fail(mixed $data): bool
        {
            return (bool) $this->redis('lPush', 'failed', $data);
        }

        public function consume(): void
        {
            while (ProcessManager::isRunning()) {
                [$data, $message] = $this->pop();
                if ($data !== false) {
                    $this->handle($data, $message);
                }
            }
        }

        public function reload(?string $queue = null): int
        {
            for ($jobs = 0; $this->redis('rPopLPush', $queue ?? 'failed', "{$this->config['channel']}:waiting"); $jobs++) {
            }
            return $jobs;
        }

        public function flush(?string $queue = null): bool
        {
            return (bool) $this->redis('del', $queue ?? 'failed');
        }

        public function info(): array
        {
            return ['waiting' => $this->redis('lLen', 'waiting'), 'delayed' => $this->redis('zCard', 'delayed'), 'failed' => $this->redis('lLen', 'failed'), 'timeout' => $this->redis('lLen', 'timeout')];
        }

        protected function retry(MessageInterface $message): bool
        {
            return $this->store($this->packer->pack($message), $this->config['retry_seconds']);
        }

        protected function remove(mixed $data): bool
        {
            return true;
        }

        private function handle(string $data, MessageInterface $message): void
        {
            try {
                $this->event?->dispatch(new BeforeHandle($message));
                $result = $message->job()->handle();
                $result = $result instanceof Result ? $result : Result::ACK;
                $this->event?->dispatch(new AfterHandle($message, $result));
                match ($result) {
                    Result::ACK => $this->ack($data),
                    Result::REQUEUE => $this->store($data, 0),
                    Result::RETRY => $message->attempts() ? $this->retry($message) : $this->fail($data),
                    Result::DROP => $this->remove($data),
                };
            } catch (\Throwable $error) {
                if ($message->attempts()) {
                    $this->event?->dispatch(new RetryHandle($message, $error));
                    $this->retry($message);
                } else {
                    $this->event?->dispatch(new FailedHandle($message, $error));
                    $this->fail($data);
                    $message->job()->fail($error);
                }
            }
        }

        private function store(string $data, int $delay): bool
        {
            return (bool) ($delay === 0 ? $this->redis('lPush', 'waiting', $data) : $this->redis('zAdd', 'delayed', time() + $delay, $data));
        }

        private function redis(string $command, string $key, mixed ...$arguments): mixed
        {
            return $this->container->get(RedisFactory::class)->get($this->config['redis']['pool'])->$command("{$this->config['channel']}:$key", ...$arguments);
        }
    }

    class DriverFactory
    {
        /** @var array<string, DriverInterface> */
        private array $drivers = [];
        private array $configs;

        public function __construct(ContainerInterface $container)
        {
            $this->configs = $container->get(ConfigInterface::class)->get('async_queue', []);
            foreach ($this->configs as $name => $config) {
                $this->drivers[$name] = make($config['driver'], ['config' => $config]);
            }
        }

        public function get(string $name): DriverInterface
        {
            return $this->drivers[$name] ?? throw new \RuntimeException("[Error] $name is a invalid driver.");
        }

        public function getConfig(string $name): array
        {
            return $this->configs[$name] ?? [];
        }
    }
}

namespace Hyperf\AsyncQueue\Process {
    use Hyperf\AsyncQueue\Driver\DriverFactory;
    use Hyperf\Process\AbstractProcess;
    use Psr\Container\ContainerInterface;

    class ConsumerProcess extends AbstractProcess
    {
        protected string $pool = 'default';

        public function __construct(ContainerInterface $container)
        {
            parent::__construct($container);
            $this->nums = $container->get(DriverFactory::class)->getConfig($this->pool)['processes'] ?? 1;
        }

        public function handle(): void
        {
            $this->container->get(DriverFactory::class)->get($this->pool)->consume();
        }
    }
}

namespace Hyperf\AsyncQueue\Command {
    use Hyperf\AsyncQueue\Driver\DriverFactory;
    use Hyperf\Command\Command;
    use Symfony\Component\Console\Input\InputArgument;
    use Symfony\Component\Console\Input\InputOption;

    /** The three commands that operators have: info, reload and flush. */
    abstract class QueueCommand extends Command
    {
        public function __construct(protected DriverFactory $drivers)
        {
            parent::__construct('queue:' . strtolower(strstr(substr(strrchr(static::class, '\\'), 1), 'Command', true)));
        }

        protected function configure(): void
        {
            $this->addArgument('name', InputArgument::OPTIONAL, '', 'default');
            $this->addOption('queue', 'Q', InputOption::VALUE_OPTIONAL);
        }
    }

    class InfoCommand extends QueueCommand
    {
        public function handle(): void
        {
            foreach ($this->drivers->get($this->input->getArgument('name'))->info() as $key => $count) {
                $this->output->writeln("$key count is $count.");
            }
        }
    }

    class ReloadCommand extends QueueCommand
    {
        public function handle(): void
        {
            $this->output->writeln('Reload ' . $this->drivers->get($this->input->getArgument('name'))->reload($this->input->getOption('queue')) . ' failed message into waiting queue.');
        }
    }

    class FlushCommand extends QueueCommand
    {
        public function handle(): void
        {
            $this->drivers->get($this->input->getArgument('name'))->flush($this->input->getOption('queue'));
            $this->output->writeln('Flush all message from failed queue.');
        }
    }
}
