<?php

declare(strict_types=1);

namespace Streamfleet\Laravel;

use Illuminate\Contracts\Queue\ClearableQueue;
use Illuminate\Contracts\Queue\Queue as QueueContract;
use Illuminate\Queue\Queue;
use Streamfleet\Cli;
use Streamfleet\Client;
use Streamfleet\Inbox;
use Streamfleet\Launcher;
use Streamfleet\Producer;
use Streamfleet\Submission;

/** Laravel's queue on a fleet: jobs are submitted by XADD, and `queue:work` runs them in a pool. */
final class StreamfleetQueue extends Queue implements ClearableQueue, QueueContract
{
    public const TYPE = 'laravel.job';
    /** A job may fail as often as Laravel says. */
    private const NO_LIMIT = 4_294_967_295;
    /** How long a job's timeout of the fleet is beyond Laravel's, which ends the job before, in seconds. */
    private const BEYOND_TIMEOUT = 10;
    private const LANES = ['', ':high', ':low'];
    /** How long `pop` waits for a job before Laravel looks at its limits, in seconds. */
    private const WAIT = 1.0;

    private ?Client $client = null;

    /**
     * @param \Closure(): Client $connect
     * @param \Closure(list<string>): Launcher $launcher of the worker for these queues
     */
    public function __construct(
        private readonly \Closure $connect,
        private readonly \Closure $launcher,
        private readonly string $default,
        private readonly string $namespace,
        bool $afterCommit,
    ) {
        $this->dispatchAfterCommit = $afterCommit;
    }

    /** The fleet's name of a queue: lower case, with `-` in place of what its names do not have. */
    public static function nameOf(string $queue): string
    {
        $name = trim((string) preg_replace('/[^a-z0-9_-]+/', '-', strtolower($queue)), '-_');
        return Submission::queue(substr($name, 0, 64));
    }

    /**
     * @param string|object|\Closure $job
     * @param mixed $data
     * @param ?string $queue
     */
    public function push($job, $data = '', $queue = null)
    {
        $payload = $this->createPayload($job, $this->queueName($queue), $data);
        return $this->enqueueUsing($job, $payload, $queue, null, fn (string $payload, ?string $queue): string => $this->submit($payload, $queue));
    }

    /**
     * @param string $payload
     * @param ?string $queue
     * @param array<string, mixed> $options
     */
    public function pushRaw($payload, $queue = null, array $options = [])
    {
        return $this->submit($payload, $queue);
    }

    /**
     * @param \DateTimeInterface|\DateInterval|int $delay
     * @param string|object|\Closure $job
     * @param mixed $data
     * @param ?string $queue
     */
    public function later($delay, $job, $data = '', $queue = null)
    {
        $payload = $this->createPayload($job, $this->queueName($queue), $data, $delay);
        return $this->enqueueUsing($job, $payload, $queue, $delay, fn (string $payload, ?string $queue, mixed $delay): string => $this->submit($payload, $queue, $this->secondsUntil($delay)));
    }

    /**
     * @param array<object|string> $jobs
     * @param mixed $data
     * @param ?string $queue
     */
    public function bulk($jobs, $data = '', $queue = null)
    {
        foreach ((array) $jobs as $job) {
            if (is_object($job) && isset($job->delay)) {
                $this->later($job->delay, $job, $data, $queue);
            } else {
                $this->push($job, $data, $queue);
            }
        }
    }

    /**
     * In a program of a pool, the next job. Elsewhere, `queue:work` becomes the worker of the fleet, which starts that program.
     *
     * @param ?string $queue
     */
    public function pop($queue = null)
    {
        $inbox = Inbox::ofFramework();
        if ($inbox === null) {
            $this->becomeWorker($this->queueName($queue));
        }
        $line = $inbox->pull(self::WAIT);
        return $line === null ? null : new StreamfleetJob($this->container, $inbox, $line, $this->connectionName);
    }

    /** How many jobs wait, run or are delayed. */
    public function size($queue = null): int
    {
        return $this->stored($queue) + $this->delayedSize($queue);
    }

    public function pendingSize($queue = null): int
    {
        return max(0, $this->stored($queue) - $this->reservedSize($queue));
    }

    public function delayedSize($queue = null): int
    {
        return (int) $this->call('ZCARD', $this->key($queue, 'delayed'));
    }

    public function reservedSize($queue = null): int
    {
        $count = fn (string $lane): int => (int) ($this->attempt('XPENDING', $this->key($queue, "jobs$lane"), 'fleet')[0] ?? 0);
        return array_sum(array_map($count, self::LANES));
    }

    /** When the job was accepted that waits for the longest time, in seconds since 1970; null if none waits. */
    public function creationTimeOfOldestPendingJob($queue = null): ?int
    {
        $times = array_filter(array_map(fn (string $lane): ?int => $this->oldest($this->key($queue, "jobs$lane")), self::LANES));
        return $times === [] ? null : intdiv(min($times), 1000);
    }

    /** Cancels all jobs of a queue that wait or are delayed, and returns how many there were. */
    public function clear($queue): int
    {
        [$program, $environment] = ($this->launcher)([$name = self::nameOf($this->queueName($queue))])->program();
        return (new Cli([$program], $name, $environment))->purge('php artisan queue:clear');
    }

    private function submit(string $payload, ?string $queue, ?int $delay = null): string
    {
        $job = (array) json_decode($payload, true);
        $queue = $this->queueName($queue);
        $name = self::nameOf($queue);
        $headers = array_filter(['job' => $job['displayName'] ?? null, 'queue' => $name === $queue ? null : $queue], is_string(...));
        $tries = (int) ($job['maxTries'] ?? 0);
        $timeout = (int) ($job['timeout'] ?? 0);
        $submission = new Submission(
            self::TYPE,
            $payload,
            queue: $name,
            delay: $delay !== null && $delay > 0 ? $delay : null,
            // Laravel fails the job itself, at the latest when it comes once more.
            maxAttempts: $tries > 0 && !isset($job['retryUntil']) ? min($tries, self::NO_LIMIT - 1) + 1 : null,
            timeout: $timeout > 0 ? min($timeout + self::BEYOND_TIMEOUT, 604_800) : null,
            headers: $headers,
            encoding: 'json',
        );
        return (new Producer($this->client(), $name, $this->namespace))->submit($submission);
    }

    private function becomeWorker(string $queue): never
    {
        $arguments = $_SERVER['argv'] ?? [];
        if (!in_array('queue:work', $arguments, true)) {
            throw new \LogicException('a fleet gives jobs to its pools, and nobody can take one out of the queue: start php artisan queue:work streamfleet');
        }
        $once = array_intersect(['--once', '--stop-when-empty'], $arguments);
        try {
            if ($once !== []) {
                throw new \RuntimeException(implode(' and ', $once) . ' cannot be used with the queue connection streamfleet: jobs are given to a pool that keeps running');
            }
            // Of options that are given twice, the last one counts.
            $command = [...Launcher::ownCommand(), '--sleep=0'];
            ($this->launcher)($this->queues($arguments, $queue))->become($command, self::TYPE);
        } catch (\RuntimeException | \InvalidArgumentException $error) {
            // Laravel would log it, and try again for ever.
            fwrite(STDERR, "queue:work cannot start a streamfleet worker: {$error->getMessage()}\n");
            exit(1);
        }
    }

    /**
     * The queues that the command names.
     *
     * @param list<string> $arguments
     * @return list<string>
     */
    private function queues(array $arguments, string $first): array
    {
        $named = $first;
        foreach ($arguments as $at => $argument) {
            if (str_starts_with($argument, '--queue=')) {
                $named = substr($argument, strlen('--queue='));
            } elseif ($argument === '--queue' && isset($arguments[$at + 1])) {
                $named = $arguments[$at + 1];
            }
        }
        return array_values(array_unique(array_map(self::nameOf(...), array_filter(explode(',', $named), strlen(...)))));
    }

    private function queueName(?string $queue): string
    {
        return $queue === null || $queue === '' ? $this->default : $queue;
    }

    /** How many jobs wait or run. */
    private function stored(?string $queue): int
    {
        return array_sum(array_map(fn (string $lane): int => (int) $this->call('XLEN', $this->key($queue, "jobs$lane")), self::LANES));
    }

    /** When the first entry was added that no worker has read, in milliseconds. */
    private function oldest(string $key): ?int
    {
        $last = '0-0';
        foreach ($this->attempt('XINFO', 'GROUPS', $key) ?? [] as $group) {
            $pairs = array_column(array_chunk((array) $group, 2), 1, 0);
            $last = ($pairs['name'] ?? '') === 'fleet' ? (string) $pairs['last-delivered-id'] : $last;
        }
        $entries = $this->call('XRANGE', $key, "($last", '+', 'COUNT', '1');
        return isset($entries[0][0]) ? (int) $entries[0][0] : null;
    }

    private function key(?string $queue, string $name): string
    {
        return "{$this->namespace}:{" . self::nameOf($this->queueName($queue)) . "}:$name";
    }

    private function call(string ...$command): mixed
    {
        return $this->client()->call($command);
    }

    /** The reply; null if there is no such key or group, such as before the first worker of a queue. */
    private function attempt(string ...$command): mixed
    {
        try {
            return $this->call(...$command);
        } catch (\Streamfleet\Refused $error) {
            return preg_match('/\A(ERR no such key|NOGROUP)/', $error->getMessage()) === 1 ? null : throw $error;
        }
    }

    private function client(): Client
    {
        return $this->client ??= ($this->connect)();
    }
}
