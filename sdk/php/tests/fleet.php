<?php

// The real program: submissions by its command line, records that it writes, and a pool of PHP workers.

declare(strict_types=1);

use Streamfleet\{Cli, InvalidSubmission, JobFailed, Producer, Submission};

require __DIR__ . '/harness.php';
require __DIR__ . '/program.php';
require __DIR__ . '/databases.php';

function producer(): Producer
{
    $redis = new Redis();
    $redis->connect('127.0.0.1', redisServer());
    return new Producer($redis);
}

test('an_id_is_accepted_once_by_the_command_line', function (): void {
    $cli = new Cli([binary()], environment: environment());
    redis('FLUSHALL');
    $first = $cli->enqueue('mail.send', ['to' => 'Ännchen'], id: 'order-7', maxAttempts: 3, headers: ['tenant' => '9'], timeout: 1.5, delay: 60);
    same(['order-7', 'scheduled', true], [$first->id, $first->state, $first->isNew]);
    same(['order-7', false], [$cli->enqueue('mail.send', [], id: 'order-7')->id, $cli->enqueue('mail.send', [], id: 'order-7')->isNew]);
    $status = $cli->status('order-7');
    same([['to' => 'Ännchen'], ['tenant' => '9'], 'scheduled'], [$status['payload'], $status['headers'], $status['state']]);
    same(null, $cli->status('no-such-job'));
    $large = $cli->enqueue('big', str_repeat('x', 1 << 20), expiresAt: new DateTime('+1 hour'), runAt: new DateTimeImmutable('+1 minute'), lane: 'low', tracking: 'all', encoding: 'raw', then: [['type' => 'b']]);
    same(1 << 20, $cli->status($large->id)['payload_bytes']);
});

test('a_unique_key_keeps_others_out', function (): void {
    $cli = new Cli([binary()], environment: environment());
    redis('FLUSHALL');
    $first = $cli->enqueue('report', ['n' => 1], unique: 'report-11');
    $second = $cli->enqueue('report', ['n' => 2], unique: 'report-11', uniqueScope: 'running');
    same([true, false, $first->id], [$first->isNew, $second->isNew, $second->id]);
    $third = $cli->enqueue('report', ['n' => 3], unique: 'report-11', uniqueMode: 'replace');
    same([true, $first->id], [$third->isNew, $third->replaced]);
    $later = $cli->enqueue('report', ['n' => 4], unique: 'later', delay: 600);
    $debounced = $cli->enqueue('report', ['n' => 5], unique: 'later', uniqueMode: 'debounce', delay: 900);
    same([$later->id, true, false], [$debounced->id, $debounced->isDebounced, $debounced->isNew]);
});

test('the_command_line_cancels_replays_and_drops_what_a_filter_matches', function (): void {
    $cli = new Cli([binary()], environment: environment());
    redis('FLUSHALL');
    foreach ([1, 1, 2] as $n) {
        $cli->enqueue('mail.send', ['n' => $n], headers: ['n' => $n], delay: 600);
    }
    same([2, 0], [$cli->cancel(['type' => 'mail.send', 'header' => 'n=1', 'state' => 'waiting,scheduled'], 'a test'), $cli->cancel(['type' => 'mail.none'], 'a test')]);
    same(1, redis('ZCARD', 'sf:{default}:delayed'));
    same([0, 0], [$cli->replayDead(['type' => 'mail.send'], 'a test'), $cli->dropDead(['type' => 'mail.send'], 'a test')]);
    withWorker("[types.\"mail.fail\"]\nhandler = { exec = { command = [\"false\"] } }\nmax_attempts = 1\n", function (): void {
        array_map(fn () => producer()->enqueue('mail.fail'), range(1, 3));
        eventually(static fn (): bool => redis('XLEN', 'sf:{default}:dead') === 3, 'three dead letters');
    });
    same([1, 0], [$cli->replayDead(['type' => 'mail.fail', 'limit' => '1'], 'a test'), $cli->replayDead(['kind' => 'timeout'], 'a test')]);
    same([2, 0], [$cli->dropDead(['type' => 'mail.fail'], 'a test'), redis('XLEN', 'sf:{default}:dead')]);
    contains('no-such-condition', thrown(InvalidSubmission::class, fn () => $cli->cancel(['no-such-condition' => '1'], 'a test'))->getMessage());
    // A queue that nobody has used has nothing.
    same([0, 0, 0], [(new Cli([binary()], 'unused', environment()))->cancel(['type' => 'a'], 'x'), (new Cli([binary()], 'unused', environment()))->replayDead(['type' => 'a'], 'x'), (new Cli([binary()], 'unused', environment()))->dropDead(['type' => 'a'], 'x')]);
});

test('what_the_command_line_refuses_is_an_error', function (): void {
    $cli = new Cli([binary()], environment: environment());
    contains('unique', thrown(InvalidSubmission::class, fn () => $cli->enqueue('a', unique: 'key', uniqueMode: 'sometimes'))->getMessage());
    contains('batch', thrown(InvalidSubmission::class, fn () => $cli->enqueue('a', batch: 'b'))->getMessage());
    contains('tracking', thrown(InvalidSubmission::class, fn () => $cli->enqueue('a', tracking: 'none'))->getMessage());
    contains('MessagePack', thrown(InvalidSubmission::class, fn () => $cli->enqueue('a', "\x01", encoding: 'msgpack'))->getMessage());
    same(null, $cli->status('--help'));
    $lost = new Cli([binary()], environment: ['STREAMFLEET__REDIS__URL' => 'redis://127.0.0.1:' . freePort()]);
    contains('cannot reach redis', thrown(Streamfleet\Refused::class, fn () => $lost->enqueue('a'))->getMessage());
    $wrong = new Cli([binary(), '--config', '/no/such/file.toml'], environment: environment());
    contains('/no/such/file.toml', thrown(Streamfleet\Refused::class, fn () => $wrong->enqueue('a'))->getMessage());
    same(false, str_contains(thrown(InvalidSubmission::class, fn () => $cli->enqueue('a', unique: 'key', uniqueMode: 'sometimes'))->getMessage(), '--help'));
    thrown(Streamfleet\Refused::class, fn () => @(new Cli(['/no/such/program']))->enqueue('a'));
});

test('the_record_of_a_job_is_read', function (): void {
    binary();
    redis('FLUSHALL');
    withWorker('
        [types."echo"]
        handler = { exec = { command = ["cat"] } }
        [types."fails"]
        handler = { exec = { command = ["sh", "-c", "echo no such user >&2; exit 65"] } }
        [types."bytes"]
        handler = { exec = { command = ["printf", "\\\\377"] } }
    ', function (): void {
        $producer = producer();
        $job = $producer->enqueue('echo', ['n' => [1.5, '18446744073709551615', null]], tracking: 'all');
        same(['done', 'echo', ['n' => [1.5, '18446744073709551615', null]]], [$producer->wait($job, 20)->state, $producer->status($job)->type, $producer->result($job)]);
        $delayed = $producer->enqueue('echo', 'later', id: 'mine', delay: 0.3, lane: 'high');
        same('later', $producer->wait($delayed, 20)->result());
        $dead = $producer->enqueue('fails', id: 'dead');
        same('dead', $producer->wait($dead, 20)->state);
        contains('no such user', thrown(JobFailed::class, fn () => $producer->result($dead))->getMessage());
        $bytes = $producer->enqueue('bytes', tracking: 'all');
        same("\xff", $producer->wait($bytes, 20)->result());
        // A plain job leaves nothing.
        $plain = $producer->enqueue('echo', 1);
        same(null, $producer->wait($plain, 0.5));
    });
});

test('a_batch_is_opened_and_followed', function (): void {
    $cli = new Cli([binary()], environment: environment());
    redis('FLUSHALL');
    withWorker("[types.member]\nhandler = { exec = { command = [\"cat\"] } }\n[types.total]\nhandler = { exec = { command = [\"cat\"] } }\n", function () use ($cli): void {
        $producer = producer();
        $members = [
            new Submission('member', ['n' => 18446744073709551615]),
            new Submission('member', "{\n\"n\": 2}", id: 'own', encoding: 'json', headers: ['tenant' => '9'], lane: 'high', timeout: 1.5, maxAttempts: 2),
            new Submission('member', 'Ännchen', encoding: 'raw', delay: 0.1, then: [['type' => 'member']]),
        ];
        $follow = new Submission('total', ['month' => 11], id: 'total-11');
        $ids = $cli->batch('invoices-11', $members, $follow);
        same(['invoices-11.0', 'own', 'invoices-11.2'], $ids);
        same(['month' => 11], $producer->wait('total-11', 30)->result());
        same('done', $cli->status('own')['state']);
        same($ids, $cli->batch('invoices-11', $members, $follow), 'again');
    });
});

test('a_batch_that_cannot_be_meant_is_refused', function (): void {
    $cli = new Cli([binary()], environment: environment());
    redis('FLUSHALL');
    $follow = new Submission('total');
    $why = static fn (callable $call): string => thrown(InvalidSubmission::class, $call)->getMessage();
    contains('no jobs', $why(fn () => $cli->batch('b', [], $follow)));
    contains('one queue', $why(fn () => $cli->batch('b', [new Submission('a', queue: 'mail')], $follow)));
    contains('name a batch', $why(fn () => $cli->batch('b', [new Submission('a', batch: 'c')], $follow)));
    contains('delay', $why(fn () => $cli->batch('b', [new Submission('a')], new Submission('total', delay: 5))));
    same([], redis('KEYS', '*'));
});

test('the_configuration_decides_by_class_and_steps_read_results', function (): void {
    binary();
    redis('FLUSHALL');
    $program = folder() . '/worker.php';
    file_put_contents($program, '<?php
        require ' . var_export(dirname(__DIR__) . '/autoload.php', true) . ';
        use Streamfleet\{Job, Worker};
        Worker::create()
            ->on("throws", fn(Job $job) => throw new $job->payload("no $job->attempt"))
            ->errors([RangeException::class => "retry"])
            ->on("gift", fn(Job $job) => match ($job->step) {
                "charge" => ["receipt" => "R-7"],
                "mail" => ["mailed" => $job->stepResult("charge"), "other" => $job->stepResult("pack")],
                "pack" => "packed",
            })
            ->on("pair", function (Job $job) {
                if ($job->step === "both") {
                    return [$job->stepResult("left"), $job->stepResult("right")];
                }
                $other = $job->step === "left" ? "right" : "left";
                touch(__DIR__ . "/met-$job->step");
                for ($deadline = microtime(true) + 20; !file_exists(__DIR__ . "/met-$other"); usleep(2000)) {
                    if (microtime(true) > $deadline) {
                        throw new RuntimeException("$other does not run");
                    }
                    clearstatcache();
                }
                return $other;
            })
            ->run();');
    withWorker('
        [pools.php]
        command = ["' . PHP_BINARY . '", "' . $program . '"]
        processes = 2
        [pools.php.errors]
        LogicException = "fatal"
        JsonException = "fatal"
        [types.throws]
        handler.pool = "php"
        max_attempts = 2
        backoff = { fixed = "10ms" }
        tracking = "failures"
        [types.throws.errors]
        JsonException = "drop"
        "Range*" = "fatal"
        [types.gift.steps]
        charge = { kind = "once", handler.pool = "php" }
        mail = { kind = "auto", handler.pool = "php", after = ["charge"] }
        pack = { kind = "auto", handler.pool = "php" }
        [types.gift]
        tracking = "all"
        [types.pair]
        tracking = "all"
        concurrent_steps = 2
        [types.pair.steps]
        left = { kind = "auto", handler.pool = "php" }
        right = { kind = "auto", handler.pool = "php" }
        both = { kind = "auto", handler.pool = "php", after = ["left", "right"] }
    ', function (): void {
        $producer = producer();
        $end = static function (string $class) use ($producer): array {
            $status = $producer->wait($producer->enqueue('throws', $class), 30) ?? throw new Exception("$class did not end");
            return [$status->state, preg_replace('/ \\(.*/', '', (string) $status->error)];
        };
        same(['dead', 'InvalidArgumentException: no 1'], $end('InvalidArgumentException'));
        // Visible although such jobs leave no record when they succeed.
        same(['cancelled', 'JsonException: no 1'], $end('JsonException'));
        same(['dead', 'RangeException: no 2'], $end('RangeException'));
        same(['dead', 'RuntimeException: no 2'], $end('RuntimeException'));
        same(3, redis('XLEN', 'sf:{default}:dead'));
        $gift = $producer->wait($producer->enqueue('gift', id: 'gift-1'), 30)->result();
        same(['mailed' => ['receipt' => 'R-7'], 'other' => null], $gift['mail']);
        // Each of two steps returns what the other one is called, once both run: each in a program of its own.
        $pair = $producer->wait($producer->enqueue('pair'), 30)->result();
        same(['both' => ['right', 'left'], 'left' => 'right', 'right' => 'left'], $pair);
    });
});

test('a_pool_of_php_workers_runs_jobs', function (): void {
    binary();
    redis('FLUSHALL');
    $types = "[pools.php]\ncommand = [\"" . PHP_BINARY . "\", \"worker.php\"]\nprocesses = 3\n";
    foreach (['ok', 'flaky', 'fatal', 'snooze', 'drop', 'exit', 'bytes', 'task'] as $type) {
        $types .= "[types.\"demo.$type\"]\nhandler = { pool = \"php\" }\nbackoff = { fixed = \"50ms\" }\nmax_attempts = 3\ntracking = \"all\"\n";
    }
    // The worker starts after the program has been written, because it greets it at once.
    $start = function (callable $body) use ($types): void {
        $program = folder();
        file_put_contents("$program/worker.php", '<?php
            require ' . var_export(dirname(__DIR__) . '/autoload.php', true) . ';
            use Streamfleet\{Done, Drop, FatalError, Job, JobType, Snooze, Task, Worker};
            $worker = Worker::create();
            #[JobType("demo.task")] final class Greet extends Task {
                public function __construct(public readonly string $name, public int $times = 1) {}
                public function handle(Job $job): mixed { return str_repeat("hello {$this->name} ", $this->times); }
            }
            $worker
                ->use(function (Job $job, callable $next) { echo "noise on standard output\n"; return $next($job); })
                ->on("demo.ok", function (Job $job) {
                    $job->progress(50, "half");
                    $job->log("info", "a line", ["n" => 1]);
                    $job->progress(100, "whole");
                    return ["payload" => $job->payload, "attempt" => $job->attempt, "tenant" => $job->headers["tenant"] ?? null];
                })
                ->on("demo.flaky", function (Job $job) { if ($job->attempt < 3) { throw new RuntimeException("not yet"); } return $job->attempt; })
                ->on("demo.fatal", fn() => throw new FatalError("never"))
                ->on("demo.snooze", function (Job $job) {
                    $mark = __DIR__ . "/" . $job->id;
                    if (is_file($mark)) { return ["attempt" => $job->attempt]; }
                    touch($mark);
                    return new Snooze(0.2, "later");
                })
                ->on("demo.drop", fn() => new Drop("not wanted"))
                ->on("demo.exit", function (Job $job) { if ($job->attempt === 1) { exit(3); } return "second"; })
                ->on("demo.bytes", fn(Job $job) => strrev($job->payload))
                ->task(Greet::class)
                ->run();');
        withWorker(str_replace('"worker.php"', json_encode("$program/worker.php", JSON_UNESCAPED_SLASHES), $types), $body);
    };
    $start(function (): void {
        $producer = producer();
        $ids = [];
        $ids['ok'] = $producer->enqueue('demo.ok', ['to' => 'Ännchen', 'n' => 0.1], headers: ['tenant' => '9']);
        foreach (['flaky', 'fatal', 'snooze', 'drop', 'exit'] as $type) {
            $ids[$type] = $producer->enqueue("demo.$type", ['x' => 1]);
        }
        $ids['bytes'] = $producer->enqueue('demo.bytes', "\x00\xfe\xff", encoding: 'raw');
        $ids['task'] = $producer->enqueue('demo.task', ['name' => 'ann', 'times' => 2]);
        $ends = array_map(fn (string $id) => $producer->wait($id, 30) ?? throw new Exception("$id did not end"), $ids);
        // The members of a result are sorted: JSON gives them no order.
        same(['attempt' => 1, 'payload' => ['n' => 0.1, 'to' => 'Ännchen'], 'tenant' => '9'], $ends['ok']->result());
        same([100, 'whole'], [$ends['ok']->percent, $ends['ok']->note]);
        same(3, $ends['flaky']->result());
        same('dead', $ends['fatal']->state);
        contains('never', $ends['fatal']->error);
        same(['attempt' => 1], $ends['snooze']->result());
        same('cancelled', $ends['drop']->state);
        same('second', $ends['exit']->result());
        same("\xff\xfe\x00", $ends['bytes']->result());
        same('hello ann hello ann ', $ends['task']->result());
        $log = json_encode((new Cli([binary()], environment: environment()))->status($ids['ok'])['log']);
        contains('a line', $log);
        $many = $producer->enqueueMany(array_map(fn (int $n) => new Submission('demo.ok', $n), range(1, 500)));
        foreach ($many as $n => $id) {
            same($n + 1, $producer->wait($id, 60)?->result()['payload']);
        }
    });
});

test('an_effect_happens_once_over_attempts_and_a_replay', function (): void {
    if (!in_array('sqlite', PDO::getAvailableDrivers(), true)) {
        throw new Skipped('PHP has no driver sqlite (Debian: php-sqlite3)');
    }
    $binary = binary();
    redis('FLUSHALL');
    $dsn = 'sqlite:' . folder() . '/db';
    $db = new PDO($dsn);
    createTables($db, 'sqlite');
    $program = folder() . '/worker.php';
    file_put_contents($program, '<?php require ' . var_export(dirname(__DIR__) . '/autoload.php', true) . ';
        $db = new PDO(' . var_export($dsn, true) . ');
        Streamfleet\Worker::create()->on("pay", function ($job) use ($db) {
            $result = Streamfleet\Effects::once($db, $job, function ($db) use ($job) {
                $db->exec("INSERT INTO transfers VALUES (1)");
                return $job->field("fence");
            });
            if ($db->query("SELECT balance FROM accounts WHERE name = \'ann\'")->fetchColumn() === 0) {
                throw new RuntimeException("the mail server is down");
            }
            return [$result, $job->field("fence")];
        })->run();');
    $command = json_encode([PHP_BINARY, $program], JSON_UNESCAPED_SLASHES);
    withWorker("[types.pay]\nhandler = { pool = { command = $command } }\nmax_attempts = 2\nbackoff = { fixed = \"50ms\" }\n", function () use ($binary, $db): void {
        $producer = producer();
        $producer->enqueue('pay', id: 'order-7');
        same('dead', $producer->wait('order-7', 30)?->state);
        $db->exec("UPDATE accounts SET balance = 1 WHERE name = 'ann'");
        [$letter] = array_keys(entries('sf:{default}:dead'));
        $replay = proc_open([$binary, 'dead', 'replay', $letter, '--yes'], [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes, null, environment() + getenv());
        $output = stream_get_contents($pipes[1]);
        same(0, proc_close($replay), $output);
        $status = eventually(static fn () => ($found = $producer->status('order-7'))?->state === 'done' ? $found : null, 'the end of the replay', 30.0);
        [$first, $last] = $status->result();
        same(-1, version_compare(strtr($first, '-', '.'), strtr($last, '-', '.')), "$first, $last");
        same([[1]], $db->query('SELECT number FROM transfers')->fetchAll(PDO::FETCH_NUM));
    });
});
