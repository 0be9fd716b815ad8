<?php

declare(strict_types=1);

namespace Streamfleet;

/** Submits jobs over the application's own Redis client: each job is one XADD, and needs no more rights than that. */
final class Producer implements Submitter
{
    /** How many jobs, and about how many bytes, one round trip has at most. */
    private const ROUND_JOBS = 500;
    private const ROUND_BYTES = 1024 * 1024;
    private const LONGEST_PAUSE = 0.5;

    private readonly Client $client;

    /**
     * @param object $client a Redis or RedisCluster of phpredis, a proxy of it, a Predis client, or a Client of your own
     * @param string $queue the queue of jobs that name none
     * @param string $namespace `redis.namespace` of the fleet
     * @param ?Codecs $codecs compresses, encrypts or stores the payloads of all jobs apart
     */
    public function __construct(object $client, private readonly string $queue = 'default', private readonly string $namespace = 'sf', private readonly ?Codecs $codecs = null)
    {
        Submission::queue($queue);
        $this->client = self::client($client);
    }

    /**
     * What sends commands by a client of Redis: see the constructor.
     *
     * @internal
     */
    public static function client(object $client): Client
    {
        return match (true) {
            $client instanceof Client => $client,
            $client instanceof \Predis\ClientInterface => new PredisClient($client),
            // It would pass rawCommand on to Predis, which has none.
            $client instanceof \Illuminate\Redis\Connections\PredisConnection => new PredisClient($client->client()),
            is_callable([$client, 'rawCommand']) => new PhpRedisClient($client),
            default => throw new \InvalidArgumentException('the client is neither phpredis nor Predis: ' . $client::class),
        };
    }

    /**
     * Submits a job, and returns its id. Once it returns, the job is accepted.
     *
     * @param mixed ...$options the parameters of Submission, by name
     * @throws InvalidSubmission|Refused nothing was submitted
     * @throws Unconfirmed nobody knows whether it was
     */
    public function enqueue(string $type, mixed $payload = null, mixed ...$options): string
    {
        return $this->submit(new Submission($type, $payload, ...$options + ['codecs' => $this->codecs]));
    }

    /** Submits a task: an object whose class has #[JobType]. Options take precedence over those of its class. */
    public function dispatch(object $task, mixed ...$options): string
    {
        return $this->submit(Tasks::submission($task, $options + ['codecs' => $this->codecs]));
    }

    /** Submits a job that is described by an object. */
    public function submit(Submission $job): string
    {
        $command = $job->encodedBy($this->codecs)->command($this->namespace, $this->queue);
        return $job->idOf(self::entry($this->client->call($command)));
    }

    /**
     * Submits many jobs in few round trips, and returns their ids. They are no transaction: if some are refused, the others are
     * accepted. If `$jobs` is a generator that throws, the round trips before that have submitted their jobs.
     *
     * @param iterable<Submission|object> $jobs submissions or tasks. The ids get the keys of an array; others are numbered
     * @return array<int|string, string>
     * @throws BulkError which says what became of each job; jobs that it does not name were not sent
     * @throws Codecs\CodecError as a generator that throws, if a store takes no payload
     */
    public function enqueueMany(iterable $jobs): array
    {
        $ids = $round = [];
        $number = $bytes = 0;
        foreach ($jobs as $key => $job) {
            // A generator may yield a key twice.
            $key = is_array($jobs) ? $key : $number++;
            $job = Tasks::job($job);
            $command = $job->encodedBy($this->codecs)->command($this->namespace, $this->queue);
            $round[$key] = [$job, $command];
            $bytes += array_sum(array_map(strlen(...), $command));
            if (count($round) >= self::ROUND_JOBS || $bytes >= self::ROUND_BYTES) {
                $ids = $this->round($round, $ids);
                $round = [];
                $bytes = 0;
            }
        }
        return $round === [] ? $ids : $this->round($round, $ids);
    }

    /**
     * Tells the relay of the outbox that rows were committed, so that it does not wait until it looks again. Call it after the commit.
     * Nothing depends on it: if it fails, the rows are found a little later.
     *
     * @throws SubmitError if Redis does not answer or refuses
     */
    public function wakeOutbox(): void
    {
        $this->client->call(['XADD', $this->namespace . ':outbox:{outbox}:wake', 'MAXLEN', '1', '*', 'wake', '1']);
    }

    /**
     * What the job's record says; null if there is none. A plain job has a record only if it failed, has its own id or
     * `tracking` `all`, and only once its first attempt has begun.
     *
     * @throws SubmitError if the record cannot be read
     */
    public function status(string $id, ?string $queue = null): ?Status
    {
        $key = $this->namespace . ':{' . Submission::queue($queue ?? $this->queue) . '}:job:' . $id;
        return Status::of($id, $this->client->call(['HMGET', $key, ...Status::FIELDS]));
    }

    /**
     * The result of a job that is done; null if it has none, or none yet.
     *
     * @throws JobFailed if the job is dead or cancelled
     */
    public function result(string $id, ?string $queue = null): mixed
    {
        return $this->status($id, $queue)?->result();
    }

    /**
     * Waits until the job is done, dead or cancelled; null if it is not within this time. The job needs its own id or
     * `tracking` `all`, or else nobody can see that it is done.
     *
     * @param int|float $seconds how long to wait at most
     */
    public function wait(string $id, int|float $seconds, ?string $queue = null): ?Status
    {
        $end = hrtime(true) + (int) ($seconds * 1e9);
        $pause = 0.01;
        while (true) {
            $status = $this->status($id, $queue);
            if ($status?->isFinal()) {
                return $status;
            }
            $left = ($end - hrtime(true)) / 1e9;
            if ($left <= 0) {
                return null;
            }
            usleep((int) (min($pause, $left) * 1e6) + 1);
            $pause = min($pause * 1.5, self::LONGEST_PAUSE);
        }
    }

    /**
     * @param array<int|string, array{Submission, list<string>}> $round
     * @param array<int|string, string> $ids those of earlier rounds
     * @return array<int|string, string> all ids
     */
    private function round(array $round, array $ids): array
    {
        $refused = $unknown = [];
        foreach ($this->client->pipeline(array_map(static fn (array $each): array => $each[1], $round)) as $key => $reply) {
            if ($reply instanceof Refused) {
                $refused[$key] = $reply->getMessage();
            } elseif ($reply instanceof Unconfirmed) {
                $unknown[$key] = $reply->getMessage();
            } else {
                $ids[$key] = $round[$key][0]->idOf(self::entry($reply));
            }
        }
        if ($refused !== [] || $unknown !== []) {
            throw new BulkError($ids, $refused, $unknown);
        }
        return $ids;
    }

    private static function entry(mixed $reply): string
    {
        if (!is_string($reply) || preg_match('/\A\d+-\d+\z/', $reply) !== 1) {
            throw new Unconfirmed('XADD was answered with ' . json_encode($reply, JSON_PARTIAL_OUTPUT_ON_ERROR) . ', which is not the id of an entry');
        }
        return $reply;
    }
}
