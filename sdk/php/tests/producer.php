<?php

// The producer with phpredis and with Predis, against a private Redis.

declare(strict_types=1);

use Streamfleet\{BulkError, JobFailed, Producer, Refused, Submission, Tasks, Unconfirmed};

require __DIR__ . '/harness.php';

/** phpredis, with every option that changes keys or values. */
function phpRedis(array $options = []): Redis
{
    if (!extension_loaded('redis')) {
        throw new Skipped('PHP has no extension redis (Debian: php-redis)');
    }
    $redis = new Redis();
    $redis->connect('127.0.0.1', redisServer());
    foreach ($options as $option => $value) {
        same(true, $redis->setOption($option, $value));
    }
    return $redis;
}

/** Predis of the Debian package, or of STREAMFLEET_TEST_PREDIS. */
function predis(array $options = []): Predis\Client
{
    $file = getenv('STREAMFLEET_TEST_PREDIS') ?: '/usr/share/php/Predis/autoload.php';
    if (!is_file($file)) {
        throw new Skipped("there is no Predis at $file (Debian: php-predis)");
    }
    require_once $file;
    return new Predis\Client('tcp://127.0.0.1:' . redisServer(), $options);
}

/** A proxy such as Hyperf's: it passes calls on to a connection of its pool. */
final class Proxy
{
    public bool $isBroken = false;

    public function __construct(private Redis $redis)
    {
    }

    public function __call(string $name, array $arguments): mixed
    {
        if ($this->isBroken) {
            throw new RuntimeException('Connection reconnect failed.');
        }
        return $this->redis->$name(...$arguments);
    }
}

$clients = [
    'phpredis' => fn (): object => phpRedis(),
    'phpredis with prefix' => fn (): object => phpRedis([Redis::OPT_PREFIX => 'app:']),
    'phpredis with serializer' => fn (): object => phpRedis([Redis::OPT_SERIALIZER => Redis::SERIALIZER_PHP]),
    'phpredis with json' => fn (): object => phpRedis([Redis::OPT_SERIALIZER => Redis::SERIALIZER_JSON]),
    'phpredis with compression' => fn (): object => phpRedis([Redis::OPT_COMPRESSION => Redis::COMPRESSION_LZF, Redis::OPT_PREFIX => 'app:', Redis::OPT_SERIALIZER => Redis::SERIALIZER_PHP]),
    'proxy' => fn (): object => new Proxy(phpRedis([Redis::OPT_PREFIX => 'app:'])),
    'predis' => fn (): object => predis(),
    'predis with prefix' => fn (): object => predis(['prefix' => 'app:']),
    'predis without exceptions' => fn (): object => predis(['exceptions' => false]),
];

foreach ($clients as $name => $make) {
    test("a job is one entry: $name", function () use ($make): void {
        redis('FLUSHALL');
        $producer = new Producer($make());
        $id = $producer->enqueue('mail.send', ['to' => 'ann', 'n' => 1.5], headers: ['tenant' => '9'], maxAttempts: 4, delay: 0.5);
        same([$id => ['type' => 'mail.send', 'payload' => '{"to":"ann","n":1.5}', 'delay_ms' => '500', 'max_attempts' => '4', 'h.tenant' => '9']], entries('sf:{default}:jobs'));
        $id = $producer->enqueue('a', lane: 'high', queue: 'mail');
        same([substr($id, 0, -5) => ['type' => 'a']], entries('sf:{mail}:jobs:high'));
        same('mine', $producer->enqueue('a', id: 'mine', lane: 'low'));
        $bytes = "\x00\xff\r\n" . random_bytes(1000);
        (new Producer($make(), 'other', 'ns'))->enqueue('a', $bytes, encoding: 'raw');
        same([['type' => 'a', 'payload' => $bytes, 'encoding' => 'raw']], array_values(entries('ns:{other}:jobs')));
        $keys = redis('KEYS', '*');
        sort($keys);
        same(['ns:{other}:jobs', 'sf:{default}:jobs', 'sf:{default}:jobs:low', 'sf:{mail}:jobs:high'], $keys);
    });

    test("many jobs are one entry each: $name", function () use ($make): void {
        redis('FLUSHALL');
        $jobs = (function (): Generator {
            for ($i = 0; $i < 1201; $i++) {
                yield 'the same key' => new Submission('a', $i, lane: $i % 2 ? 'high' : 'normal');
            }
        })();
        $ids = (new Producer($make()))->enqueueMany($jobs);
        same([1201, range(0, 1200)], [count(array_unique($ids)), array_keys($ids)]);
        same('0', entries('sf:{default}:jobs')[$ids[0]]['payload']);
        same('1199', entries('sf:{default}:jobs:high')[substr($ids[1199], 0, -5)]['payload']);
        same([], (new Producer($make()))->enqueueMany([]));
    });

    test("a record is read: $name", function () use ($make): void {
        redis('FLUSHALL');
        $producer = new Producer($make());
        same(null, $producer->status('x'));
        same(null, $producer->wait('x', 0.05));
        redis('HSET', 'sf:{default}:job:x', 'state', 'running', 'type', 'a', 'progress', '40', 'note', 'page 2');
        same(['running', 40, 'page 2'], [$producer->status('x')->state, $producer->status('x')->percent, $producer->status('x')->note]);
        same(null, $producer->result('x'));
        redis('HSET', 'sf:{default}:job:x', 'state', 'done', 'result', '{"n":[1,null,"s:1:\"a\";"]}');
        same(['n' => [1, null, 's:1:"a";']], $producer->result('x'));
        same('done', $producer->wait('x', 5)->state);
        redis('HSET', 'sf:{mail}:job:y', 'state', 'dead', 'error', 'no such user');
        same(['dead', 'no such user'], [$producer->wait('y', 5, queue: 'mail')->state, $producer->status('y', 'mail')->error]);
        contains('no such user', thrown(JobFailed::class, fn () => $producer->result('y', 'mail'))->getMessage());
    });

    test("a refusal is not an acceptance: $name", function () use ($make): void {
        redis('FLUSHALL');
        $producer = new Producer($make());
        redis('SET', 'sf:{broken}:jobs', 'text');
        contains('WRONGTYPE', thrown(Refused::class, fn () => $producer->enqueue('a', queue: 'broken'))->getMessage());
        $error = thrown(BulkError::class, fn () => $producer->enqueueMany(['x' => new Submission('a'), 'y' => new Submission('a', queue: 'broken'), 'z' => new Submission('a')]));
        same([['x', 'z'], ['y'], []], [array_keys($error->accepted), array_keys($error->refused), array_keys($error->unknown)]);
        contains('WRONGTYPE', $error->refused['y']);
        redis('CONFIG', 'SET', 'maxmemory', '1');
        try {
            contains('OOM', thrown(Refused::class, fn () => $producer->enqueue('a'))->getMessage());
            $error = thrown(BulkError::class, fn () => $producer->enqueueMany([new Submission('a'), new Submission('a')]));
            same(0, count($error->accepted));
            contains('OOM', $error->getMessage());
        } finally {
            redis('CONFIG', 'SET', 'maxmemory', '0');
        }
        // The connection is still in step: the reply belongs to this command.
        $id = $producer->enqueue('a', 'after');
        same('"after"', entries('sf:{default}:jobs')[$id]['payload']);
        same(3, redis('XLEN', 'sf:{default}:jobs'));
    });

    test("a lost connection is no refusal: $name", function () use ($make, $name): void {
        redis('FLUSHALL');
        $client = $make();
        if ($client instanceof Proxy) {
            throw new Skipped('a proxy renews its connections itself');
        }
        $producer = new Producer($client);
        $producer->enqueue('a');
        // The reply comes, but too late.
        redis('CLIENT', 'PAUSE', '10000', 'WRITE');
        if (str_starts_with($name, 'predis')) {
            $producer = new Producer(new Predis\Client(['host' => '127.0.0.1', 'port' => redisServer(), 'read_write_timeout' => 0.1]));
        } else {
            $client->setOption(Redis::OPT_READ_TIMEOUT, 0.1);
        }
        thrown(Unconfirmed::class, fn () => $producer->enqueue('a', 'late'));
        $error = thrown(BulkError::class, fn () => $producer->enqueueMany([new Submission('a', 'late'), new Submission('a', 'late')]));
        same([0, 1], array_keys($error->unknown));
        redis('CLIENT', 'UNPAUSE');
        // It is not taken for that of the next command.
        $id = $producer->enqueue('a', 'next');
        same('"next"', entries('sf:{default}:jobs')[$id]['payload']);
    });
}

test('a_connection_that_was_never_made_refuses_the_job', function (): void {
    contains('connect()', thrown(Streamfleet\Refused::class, fn () => (new Producer(new Redis()))->enqueue('a'))->getMessage());
});

test('phpredis_stays_in_its_database_when_it_connects_again', function (): void {
    redis('FLUSHALL');
    $redis = phpRedis([Redis::OPT_READ_TIMEOUT => 0.1]);
    $redis->select(3);
    $producer = new Producer($redis);
    // For a while, the server answers nobody, so the database cannot be selected either.
    redis('CLIENT', 'PAUSE', '1500', 'ALL');
    thrown(Unconfirmed::class, fn () => $producer->enqueue('a', 'late'));
    same([0], array_keys(thrown(BulkError::class, fn () => $producer->enqueueMany([new Submission('a')]))->unknown));
    // This waits for the end of the pause.
    redis('PING');
    $id = $producer->enqueue('a', 'next');
    same(0, redis('XLEN', 'sf:{default}:jobs'));
    redis('SELECT', '3');
    same('"next"', entries('sf:{default}:jobs')[$id]['payload']);
    redis('SELECT', '0');
    same(3, $redis->getDbNum());
});

test('a_client_in_a_transaction_is_refused', function (): void {
    $redis = phpRedis();
    $redis->multi();
    $producer = new Producer($redis);
    contains('MULTI or a pipeline', thrown(LogicException::class, fn () => $producer->enqueue('a'))->getMessage());
    contains('MULTI or a pipeline', thrown(LogicException::class, fn () => $producer->enqueueMany([new Submission('a')]))->getMessage());
    $redis->discard();
});

test('phpredis_loses_no_reply_when_a_pipeline_is_refused_halfway', function (): void {
    redis('FLUSHALL');
    $producer = new Producer(phpRedis());
    // The second command fails with an error that phpredis throws, the others succeed.
    redis('ACL', 'SETUSER', 'half', 'on', '>secret', '~sf:{yes}:*', '+@all');
    $redis = phpRedis();
    $redis->auth(['half', 'secret']);
    $half = new Producer($redis, 'yes');
    $error = thrown(BulkError::class, fn () => $half->enqueueMany([new Submission('a', 1), new Submission('a', 2, queue: 'no'), new Submission('a', 3)]));
    same([0, 0, 3], [count($error->accepted), count($error->refused), count($error->unknown)]);
    contains('NOPERM', $error->unknown[0]);
    $id = $half->enqueue('a', 'after');
    same('"after"', entries('sf:{yes}:jobs')[$id]['payload']);
    same(3, redis('XLEN', 'sf:{yes}:jobs'));
    redis('ACL', 'DELUSER', 'half');
});

/** phpredis, logged in as a user of deploy/redis/users.acl. */
function loggedIn(string $user): Redis
{
    $line = preg_grep("/^user $user /", file(dirname(__DIR__, 3) . '/deploy/redis/users.acl', FILE_IGNORE_NEW_LINES));
    $rules = array_slice(explode(' ', trim((string) reset($line))), 1);
    redis('ACL', 'SETUSER', ...array_map(static fn (string $rule): string => str_starts_with($rule, '#') ? '>secret' : $rule, $rules));
    $redis = phpRedis();
    $redis->auth([$user, 'secret']);
    return $redis;
}

test('many_jobs_are_submitted_once_after_the_server_closed_the_connection', function (): void {
    redis('FLUSHALL');
    $redis = phpRedis();
    $redis->select(3);
    $producer = new Producer($redis);
    $producer->enqueue('a');
    // All but the one that asks for it.
    redis('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    same(2, count($producer->enqueueMany([new Submission('b'), new Submission('c')])));
    same(3, $redis->xLen('sf:{default}:jobs'));
});

test('a_late_reply_is_not_taken_for_that_of_a_job', function (): void {
    redis('FLUSHALL');
    $redis = phpRedis();
    $former = $redis->client('id');
    $redis->setOption(Redis::OPT_READ_TIMEOUT, 0.3);
    redis('CLIENT', 'PAUSE', '550', 'ALL');
    $ids = (new Producer($redis))->enqueueMany([new Submission('a'), new Submission('b')]);
    same(array_map('strval', array_keys(entries('sf:{default}:jobs'))), $ids);
    same(false, $redis->client('id') === $former);
});

test('a_connection_of_laravel_with_predis_is_its_client', function (): void {
    redis('FLUSHALL');
    $client = predis();
    eval('namespace Illuminate\Redis\Connections; final class PredisConnection {
        public function __construct(private object $client) {}
        public function client(): object { return $this->client; }
        public function __call(string $name, array $arguments): mixed { return $this->client->$name(...$arguments); }
    }');
    (new Producer(new Illuminate\Redis\Connections\PredisConnection($client)))->enqueue('a');
    same(1, redis('XLEN', 'sf:{default}:jobs'));
});

test('the_login_of_a_producer_is_enough_to_submit', function (): void {
    redis('FLUSHALL');
    $producer = new Producer(loggedIn('producer'));
    same(2, count($producer->enqueueMany([new Submission('a'), new Submission('a', lane: 'low')])));
    $producer->enqueue('a');
    contains('NOPERM', thrown(Refused::class, fn () => $producer->status('x'))->getMessage());
    redis('ACL', 'DELUSER', 'producer');
});

test('the_login_of_a_submitter_reads_records_too', function (): void {
    redis('FLUSHALL');
    $producer = new Producer(loggedIn('submitter'));
    $producer->enqueue('a', lane: 'high');
    redis('HSET', 'sf:{default}:job:x', 'state', 'done', 'result', '7');
    same(7, $producer->wait('x', 1)->result());
    redis('ACL', 'DELUSER', 'submitter');
});

test('tasks_are_dispatched', function (): void {
    redis('FLUSHALL');
    eval('#[Streamfleet\JobType("mail.send", maxAttempts: 4)] class SendMail extends Streamfleet\Task {
        function __construct(public string $to) {} function handle(Streamfleet\Job $job): mixed { return null; } }');
    Tasks::submitBy(new Producer(phpRedis()));
    Streamfleet\dispatch(new SendMail('ann'), delay: 2);
    SendMail::dispatch('bob');
    Tasks::producer()->enqueueMany([new SendMail('cid')]);
    $entries = array_values(entries('sf:{default}:jobs'));
    same(['type' => 'mail.send', 'payload' => '{"to":"ann"}', 'delay_ms' => '2000', 'max_attempts' => '4'], $entries[0]);
    same(['{"to":"bob"}', '{"to":"cid"}'], [$entries[1]['payload'], $entries[2]['payload']]);
});

test('what_a_proxy_throws_is_no_refusal', function (): void {
    $proxy = new Proxy(phpRedis());
    $proxy->isBroken = true;
    contains('reconnect failed', thrown(Unconfirmed::class, fn () => (new Producer($proxy))->enqueue('a'))->getMessage());
});

test('a_cluster_gets_each_job_on_its_node', function (): void {
    phpRedis();
    $port = startRedis('--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1');
    $node = new Redis();
    $node->connect('127.0.0.1', $port);
    $node->rawCommand('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
    eventually(fn (): bool => str_contains($node->rawCommand('CLUSTER', 'INFO'), 'cluster_state:ok'), 'the cluster');
    $cluster = new RedisCluster(null, ["127.0.0.1:$port"]);
    $cluster->setOption(Redis::OPT_PREFIX, 'app:');
    $producer = new Producer($cluster);
    $id = $producer->enqueue('a', 1);
    $ids = $producer->enqueueMany(['x' => new Submission('a', 2), 'y' => new Submission('a', 3, queue: 'other')]);
    same([[$id, ['type', 'a', 'payload', '1']], [$ids['x'], ['type', 'a', 'payload', '2']]], $node->rawCommand('XRANGE', 'sf:{default}:jobs', '-', '+'));
    same(1, $node->rawCommand('XLEN', 'sf:{other}:jobs'));
    $node->rawCommand('HSET', 'sf:{default}:job:x', 'state', 'done', 'result', '7');
    same([7, null], [$producer->result('x'), $producer->status('y')]);
    $node->rawCommand('SET', 'sf:{broken}:jobs', 'x');
    contains('WRONGTYPE', thrown(Refused::class, fn () => $producer->enqueue('a', queue: 'broken'))->getMessage());
});

test('what_is_no_client_is_refused', function (): void {
    contains('neither phpredis nor Predis', thrown(InvalidArgumentException::class, fn () => new Producer(new stdClass()))->getMessage());
});
