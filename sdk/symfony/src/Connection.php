<?php

declare(strict_types=1);

namespace Streamfleet\Messenger;

use Streamfleet\Client;
use Streamfleet\Launcher;
use Streamfleet\Producer;
use Streamfleet\Submission;
use Symfony\Component\Messenger\Exception\InvalidArgumentException;
use Symfony\Component\Messenger\Exception\LogicException;
use Symfony\Component\Messenger\Exception\TransportException;

/** What the address of a transport says, and its connection to Redis. */
final class Connection
{
    public const TYPE = 'symfony.message';
    private const LANES = ['', ':high', ':low'];
    /** The options, and what they are unless something else is said. */
    private const DEFAULTS = ['queue' => 'default', 'namespace' => 'sf', 'program' => 'streamfleet', 'processes' => 1, 'ahead' => 0, 'batch' => 1, 'config' => null];

    /** What Symfony's recipe writes into `messenger.yaml` for the transport of Doctrine. */
    private const RECIPE = ['use_notify' => true, 'check_delayed_interval' => 60000];

    private ?Client $client = null;

    /** @param array{scheme: string, host: string, port: int, user: string, pass: string, db: int} $server */
    private function __construct(
        private readonly array $server,
        private readonly string $queue,
        private readonly string $namespace,
        private readonly string $program,
        private readonly int $processes,
        private readonly int $ahead,
        private readonly int $batch,
        private readonly ?string $config,
    ) {
        Submission::queue($queue);
    }

    /** @param array<string, mixed> $options */
    public static function of(#[\SensitiveParameter] string $dsn, array $options): self
    {
        $parts = parse_url(strtr($dsn, ['streamfleet:///' => 'streamfleet://localhost/']));
        if ($parts === false) {
            throw new InvalidArgumentException('the address of a transport is not valid: it has the form streamfleet://user:password@host:6379/0?queue=default');
        }
        parse_str($parts['query'] ?? '', $query);
        $known = array_intersect_key($query + $options, self::DEFAULTS);
        $unknown = array_diff_key($query + $options, self::DEFAULTS, self::RECIPE, ['transport_name' => 1]);
        if ($unknown !== []) {
            throw new InvalidArgumentException('a streamfleet transport has no option ' . implode(', ', array_keys($unknown)) . ': remove the options of another transport; it has ' . implode(', ', array_keys(self::DEFAULTS)));
        }
        $set = $known + self::DEFAULTS;
        $server = [
            'scheme' => ($parts['scheme'] ?? '') === 'streamfleets' ? 'rediss' : 'redis',
            'host' => $parts['host'] ?? '127.0.0.1',
            'port' => $parts['port'] ?? 6379,
            'user' => rawurldecode($parts['user'] ?? ''),
            'pass' => rawurldecode($parts['pass'] ?? ''),
            'db' => (int) ltrim($parts['path'] ?? '', '/'),
        ];
        return new self($server, (string) $set['queue'], (string) $set['namespace'], (string) $set['program'], max(1, (int) $set['processes']), max(0, (int) $set['ahead']), max(1, (int) $set['batch']), $set['config']);
    }

    public function queue(): string
    {
        return $this->queue;
    }

    /** How many messages a program may have at once, for handlers of batches. */
    public function batch(): int
    {
        return $this->batch;
    }

    /** Submits a message, and returns the id of its job. */
    public function add(string $payload, string $class, int $delayMs): string
    {
        $job = new Submission(self::TYPE, $payload, delay: $delayMs > 0 ? $delayMs / 1000 : null, headers: ['message' => $class], encoding: 'json');
        return (new Producer($this->client(), $this->queue, $this->namespace))->submit($job);
    }

    /** How many messages wait, run or are delayed. */
    public function count(): int
    {
        $counts = array_map(fn (string $lane): int => (int) $this->client()->call(['XLEN', $this->key("jobs$lane")]), self::LANES);
        return array_sum($counts) + (int) $this->client()->call(['ZCARD', $this->key('delayed')]);
    }

    /**
     * Becomes the worker of these connections.
     *
     * @param non-empty-list<self> $all
     */
    public function becomeWorker(array $all): never
    {
        if (!in_array('messenger:consume', $_SERVER['argv'] ?? [], true)) {
            throw new LogicException('a fleet gives messages to its pools, and nobody can take one out of the queue: start bin/console messenger:consume');
        }
        foreach ($all as $other) {
            if ([$other->server, $other->namespace] !== [$this->server, $this->namespace]) {
                $this->fail('the transports are not on one Redis: start a command for each of them');
            }
        }
        $queues = array_values(array_unique(array_map(static fn (self $each): string => $each->queue, $all)));
        try {
            $launcher = new Launcher($this->address(), $queues, $this->program, $this->namespace, $this->processes, $this->config, $this->ahead, $this->batch);
            // Of options that are given twice, the last one counts.
            $launcher->become([...Launcher::ownCommand(), '--sleep=0'], self::TYPE);
        } catch (\RuntimeException $error) {
            $this->fail($error->getMessage());
        }
    }

    /** The address of Redis, as the worker takes it. */
    public function address(): string
    {
        ['scheme' => $scheme, 'host' => $host, 'port' => $port, 'user' => $user, 'pass' => $pass, 'db' => $db] = $this->server;
        $login = $user === '' && $pass === '' ? '' : rawurlencode($user) . ($pass === '' ? '' : ':' . rawurlencode($pass)) . '@';
        return "$scheme://$login$host:$port" . ($db === 0 ? '' : "/$db");
    }

    private function fail(string $why): never
    {
        fwrite(STDERR, "messenger:consume cannot start a streamfleet worker: $why\n");
        exit(1);
    }

    private function key(string $name): string
    {
        return "{$this->namespace}:{{$this->queue}}:$name";
    }

    private function client(): Client
    {
        return $this->client ??= Producer::client(extension_loaded('redis') ? $this->phpRedis() : $this->predis());
    }

    private function phpRedis(): \Redis
    {
        ['scheme' => $scheme, 'host' => $host, 'port' => $port, 'user' => $user, 'pass' => $pass, 'db' => $db] = $this->server;
        $redis = new \Redis();
        try {
            $redis->connect(($scheme === 'rediss' ? 'tls://' : '') . $host, $port);
        } catch (\RedisException $error) {
            throw new TransportException("Redis does not answer at $host:$port: {$error->getMessage()}", 0, $error);
        }
        if ($pass !== '') {
            $redis->auth($user === '' ? $pass : [$user, $pass]);
        }
        $redis->select($db);
        return $redis;
    }

    private function predis(): \Predis\Client
    {
        if (!class_exists(\Predis\Client::class)) {
            throw new LogicException('a streamfleet transport needs the extension redis (Debian: php-redis) or predis/predis');
        }
        return new \Predis\Client($this->address());
    }
}
