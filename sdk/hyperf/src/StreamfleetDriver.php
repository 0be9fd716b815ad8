<?php

declare(strict_types=1);

namespace Streamfleet\Hyperf;

use Hyperf\AsyncQueue\AnnotationJob;
use Hyperf\AsyncQueue\Driver\Driver;
use Hyperf\AsyncQueue\Driver\DriverFactory;
use Hyperf\AsyncQueue\Exception\InvalidQueueException;
use Hyperf\AsyncQueue\JobInterface;
use Hyperf\AsyncQueue\JobMessage;
use Hyperf\AsyncQueue\MessageInterface;
use Hyperf\Contract\CompressInterface;
use Hyperf\Contract\ConfigInterface;
use Hyperf\Process\ProcessManager;
use Hyperf\Redis\RedisFactory;
use Psr\Container\ContainerInterface;
use Streamfleet\Cli;
use Streamfleet\Done;
use Streamfleet\Drop;
use Streamfleet\Fatal;
use Streamfleet\Inbox;
use Streamfleet\Launcher;
use Streamfleet\Producer;
use Streamfleet\Submission;

/** Hyperf's async queue on a fleet: jobs are submitted by XADD, and the programs of a pool, which boot the container once, run them. */
class StreamfleetDriver extends Driver
{
    public const TYPE = 'hyperf.job';
    /** The kinds of deaths after which Hyperf's own driver has a job in its list `timeout`. */
    private const TIMEOUT_KINDS = ['timeout', 'lost', 'unknown'];
    private const LANES = ['', ':high', ':low'];
    /** How long `pop` waits for a job, and how often `consume` looks after its worker, in seconds. */
    private const WAIT = 1.0;
    private const LOOK = 0.1;

    private readonly Settings $settings;
    private ?Producer $producer = null;

    /** @param array<string, mixed> $config a section of `config/autoload/async_queue.php` */
    public function __construct(ContainerInterface $container, $config)
    {
        parent::__construct($container, $config);
        $this->settings = Settings::of($config);
    }

    /** The driver of a section of `config/autoload/async_queue.php`, which must be this one. */
    public static function named(DriverFactory $drivers, string $pool): self
    {
        $driver = $drivers->get($pool);
        return $driver instanceof self ? $driver : throw new \InvalidArgumentException("the driver of '$pool' in config/autoload/async_queue.php is " . $driver::class . ', and not that of streamfleet');
    }

    public function push(JobInterface $job, int $delay = 0): bool
    {
        $bytes = $this->packer->pack(new JobMessage($job));
        $headers = ['job' => self::nameOf($job)] + ($delay > 0 ? ['key' => self::keyOf($job)] : []);
        $this->producer()->submit(new Submission(
            self::TYPE,
            $bytes,
            delay: $delay > 0 ? $delay : null,
            // Hyperf counts how often a job may be repeated.
            maxAttempts: min(max(0, $job->getMaxAttempts()), 4_294_967_294) + 1,
            timeout: $this->settings->timeout,
            headers: $headers,
            encoding: 'raw',
        ));
        return true;
    }

    /** Cancels the jobs that are equal to this one and were pushed with a delay which has not passed. */
    public function delete(JobInterface $job): bool
    {
        return $this->cli()->cancel(['type' => self::TYPE, 'header' => 'key=' . self::keyOf($job), 'state' => 'waiting,scheduled'], 'the application deleted a delayed job') > 0;
    }

    /** In a program of a pool, the next job; `[false, null]` if there is none within a second. */
    public function pop(): array
    {
        $delivery = $this->take(self::WAIT);
        try {
            return $delivery === null ? [false, null] : [$delivery, $delivery->message()];
        } catch (\Throwable $error) {
            $delivery->settle($this->consumer()->unreadable($delivery, $error));
            return [false, null];
        }
    }

    public function ack(mixed $data): bool
    {
        return $data instanceof Delivery && $data->settle(new Done(null));
    }

    public function fail(mixed $data): bool
    {
        return $data instanceof Delivery && $data->settle(new Fatal('the application called fail()'));
    }

    /** In a process of the server: watches a worker of the fleet, until the process is to stop. */
    public function consume(): void
    {
        $this->supervise(1);
    }

    /** Starts a worker whose pool has this many programs, and watches it until the process is to stop. */
    public function supervise(int $processes): void
    {
        $worker = $this->launcher($processes)->start($this->command(), self::TYPE);
        while ($worker->isRunning()) {
            if (!ProcessManager::isRunning()) {
                $worker->stop();
            }
            usleep((int) (self::LOOK * 1e6));
        }
        if (ProcessManager::isRunning()) {
            throw new \RuntimeException("the streamfleet worker of the queue {$this->settings->queue} has ended with status {$worker->code()}: its log says why");
        }
    }

    /** Becomes the worker, in a command of its own. It returns only if that fails, with an exception. */
    public function becomeWorker(): never
    {
        $this->launcher($this->settings->processes)->become($this->command(), self::TYPE);
    }

    /** How many programs one worker has. */
    public function processes(): int
    {
        return $this->settings->processes;
    }

    /** The loop of a program. */
    public function consumer(): Consumer
    {
        return new Consumer($this->container, $this->event, $this, $this->settings, $this->checkQueueLength(...), $this->lengthCheckCount);
    }

    /**
     * Takes the next job.
     *
     * @param int $inflight how many jobs the program works on at once; the first call decides
     */
    public function take(float $seconds, int $inflight = 1): ?Delivery
    {
        $inbox = Inbox::ofFramework() ?? throw new \LogicException('a fleet gives jobs to the programs of its pools, and nobody can take one out of the queue: start php bin/hyperf.php, or php bin/hyperf.php streamfleet:work');
        $line = $inbox->pull($seconds, inflight: $inflight);
        $unpack = fn (string $bytes): MessageInterface => Packed::unpack($bytes, $this->packer, $this->settings->classes);
        return $line === null ? null : new Delivery($inbox, $line, $unpack);
    }

    /** Replays dead letters: all, or those whose process or time was lost (`timeout`). */
    public function reload(?string $queue = null): int
    {
        if (!in_array($queue ?? '', ['', 'failed', 'dead', 'timeout'], true)) {
            throw new InvalidQueueException("Queue $queue is not supported.");
        }
        return $this->sweep($this->cli()->replayDead(...), $queue, 'queue:reload');
    }

    /** Drops dead letters, as `reload` replays them; or cancels jobs that wait or are delayed. */
    public function flush(?string $queue = null): bool
    {
        $state = ['waiting' => 'waiting', 'delayed' => 'scheduled'][$queue ?? ''] ?? null;
        if ($state !== null) {
            return $this->cli()->cancel(['type' => self::TYPE, 'state' => $state], 'queue:flush') > 0;
        }
        if (!in_array($queue ?? '', ['', 'failed', 'dead', 'timeout'], true)) {
            throw new InvalidQueueException("Queue $queue is not exist.");
        }
        return $this->sweep($this->cli()->dropDead(...), $queue, 'queue:flush') > 0;
    }

    /** @return array{waiting: int, delayed: int, failed: int, timeout: int} */
    public function info(): array
    {
        $held = $stored = 0;
        foreach (self::LANES as $lane) {
            $stored += (int) $this->call('XLEN', "jobs$lane");
            $held += (int) ($this->call('XPENDING', "jobs$lane", 'fleet')[0] ?? 0);
        }
        return [
            'waiting' => max(0, $stored - $held),
            'delayed' => (int) $this->call('ZCARD', 'delayed'),
            'failed' => (int) $this->call('XLEN', 'dead'),
            // An interrupted job runs again by itself.
            'timeout' => 0,
        ];
    }

    /** What operators call a job: its class, or its method with #[AsyncQueueMessage]. */
    public static function nameOf(JobInterface $job): string
    {
        return $job instanceof AnnotationJob ? "{$job->class}::{$job->method}" : $job::class;
    }

    /** The failed jobs. */
    public function letters(): Letters
    {
        return new Letters(Producer::client($this->redis()), "{$this->settings->namespace}:{{$this->settings->queue}}:dead");
    }

    /** What does to dead letters what operators want, by the program. */
    public function cli(): Cli
    {
        [$program, $environment] = $this->launcher(1)->program();
        return new Cli([$program], $this->settings->queue, $environment);
    }

    protected function retry(MessageInterface $message): bool
    {
        throw new \LogicException('a retry is an answer to the fleet: see ' . Consumer::class);
    }

    protected function remove(mixed $data): bool
    {
        return $data instanceof Delivery && $data->settle(new Drop('the application removed it'));
    }

    /** @param \Closure(array<string, string>, string): int $change */
    private function sweep(\Closure $change, ?string $queue, string $reason): int
    {
        if ($queue !== 'timeout') {
            return $change(['type' => self::TYPE], $reason);
        }
        return array_sum(array_map(static fn (string $kind): int => $change(['type' => self::TYPE, 'kind' => $kind], $reason), self::TIMEOUT_KINDS));
    }

    private function launcher(int $processes): Launcher
    {
        $redis = $this->container->get(ConfigInterface::class)->get("redis.{$this->settings->redis}");
        if (!is_array($redis)) {
            throw new \InvalidArgumentException("config/autoload/redis.php has no section '{$this->settings->redis}', which redis.pool of config/autoload/async_queue.php names");
        }
        // Without Swoole, a program works on one job after the other.
        $limit = extension_loaded('swoole') || class_exists('Swoole\Coroutine', false) ? $this->settings->limit : 1;
        return new Launcher(RedisAddress::of($redis), [$this->settings->queue], $this->settings->program, $this->settings->namespace, $processes, $this->settings->config, $this->settings->ahead, $limit);
    }

    /** @return list<string> the command of the pool: the script of this process with another command */
    private function command(): array
    {
        if (!extension_loaded('FFI')) {
            throw new \RuntimeException('the programs of a pool need the extension ffi, so that the console of Hyperf finds its standard output: in an image of Docker, docker-php-ext-install ffi, or apk add php-ffi');
        }
        // Hyperf gives its processes titles, in the place of their command lines.
        $script = realpath((string) ($_SERVER['argv'][0] ?? ''));
        $options = extension_loaded('swoole') ? ['-d', 'swoole.use_shortname=Off'] : [];
        return [PHP_BINARY, ...$options, $script === false ? BASE_PATH . '/bin/hyperf.php' : $script, 'streamfleet:pool', $this->name()];
    }

    /** The name of this section in `config/autoload/async_queue.php`, which Hyperf does not tell. */
    private function name(): string
    {
        $name = array_search($this->config, (array) $this->container->get(ConfigInterface::class)->get('async_queue', []), true);
        return $name === false ? throw new \LogicException('config/autoload/async_queue.php has no section with the configuration of this driver') : (string) $name;
    }

    private static function keyOf(JobInterface $job): string
    {
        return substr(hash('sha256', serialize($job instanceof CompressInterface ? $job->compress() : $job)), 0, 32);
    }

    private function producer(): Producer
    {
        return $this->producer ??= new Producer($this->redis(), $this->settings->queue, $this->settings->namespace);
    }

    private function redis(): object
    {
        return $this->container->get(RedisFactory::class)->get($this->settings->redis);
    }

    /** The reply to a command about a key of the queue; null if there is no such group, as before the first worker of the queue. */
    private function call(string $command, string $key, string ...$arguments): mixed
    {
        try {
            return Producer::client($this->redis())->call([$command, "{$this->settings->namespace}:{{$this->settings->queue}}:$key", ...$arguments]);
        } catch (\Streamfleet\Refused $error) {
            return str_starts_with($error->getMessage(), 'NOGROUP') ? null : throw $error;
        }
    }
}
