<?php

// Effects and the outbox, on private databases.

declare(strict_types=1);

require __DIR__ . '/harness.php';
require __DIR__ . '/databases.php';
require __DIR__ . '/jobs.php';

use Streamfleet\{Effects, Fatal, InvalidSubmission, JobType, Outbox, Submission, Superseded, Task};

#[JobType('mail.welcome', priority: 9)]
final class Welcome extends Task
{
    public function __construct(public readonly string $to)
    {
    }

    public function handle(Streamfleet\Job $job): mixed
    {
        return null;
    }
}

function count_(PDO $db, string $table): int
{
    return (int) $db->query("SELECT COUNT(*) FROM $table")->fetchColumn();
}

/** Work that leaves a trace. */
function transfer(int $number = 1): Closure
{
    return static function (PDO $db) use ($number): array {
        $db->exec("INSERT INTO transfers VALUES ($number)");
        return ['number' => $number, 'share' => 1.0, 'text' => "back\\slash 'ü'\0"];
    };
}

const RESULT = ['number' => 1, 'share' => 1.0, 'text' => "back\\slash 'ü'\0"];

eachDatabase('work_is_done_once', function (Closure $connect): void {
    $db = $connect();
    same(RESULT, Effects::once($db, aJob(), transfer()));
    // A repetition, and a replay, whose fence is newer.
    foreach (['17-0', '17-1', '18-0', '1700000000000-5'] as $fence) {
        same(RESULT, Effects::once($db, aJob(fence: $fence), transfer(2)));
    }
    same(1, count_($db, 'transfers'));
    same(false, $db->inTransaction());
    // Another id, queue, step of the handler, and step of the job.
    Effects::once($db, aJob('ORDER-7'), transfer());
    Effects::once($db, aJob(queue: 'other'), transfer());
    Effects::once($db, aJob(), transfer(), 'refund');
    Effects::once($db, aJob(step: 'charge'), transfer());
    Effects::once($db, aJob(step: 'charge'), transfer(), 'refund');
    same(6, count_($db, 'transfers'));
    $steps = $db->query("SELECT step FROM streamfleet_effects WHERE job_id = 'order-7' AND queue = 'default' ORDER BY step")->fetchAll(PDO::FETCH_COLUMN);
    same(['', 'charge', 'charge/refund', 'refund'], $steps);
});

eachDatabase('a_result_may_be_nothing_and_objects_are_arrays', function (Closure $connect): void {
    $db = $connect();
    foreach ([[null, null], [new ArrayObject(), []], [(object) ['a' => 1], ['a' => 1]], ['', ''], [false, false], [0, 0]] as $number => [$value, $kept]) {
        same($kept, Effects::once($db, aJob("job-$number"), static fn () => $value));
        same($kept, Effects::once($db, aJob("job-$number"), static fn () => throw new Exception('it ran again')));
    }
    // A row that was written by hand.
    $db->exec("UPDATE streamfleet_effects SET result = NULL WHERE job_id = 'job-3'");
    same(null, Effects::once($db, aJob('job-3'), static fn () => 1));
});

eachDatabase('an_outdated_attempt_is_told_so', function (Closure $connect): void {
    $db = $connect();
    Effects::once($db, aJob(fence: '18-5'), transfer());
    foreach (['18-4', '17-9'] as $fence) {
        contains('a later attempt of the job order-7', thrown(Superseded::class, fn () => Effects::once($db, aJob(fence: $fence), transfer()))->getMessage());
        same(false, $db->inTransaction());
    }
    same(1, count_($db, 'transfers'));
});

eachDatabase('work_that_fails_leaves_nothing', function (Closure $connect): void {
    $db = $connect();
    $fail = static function (PDO $db): void {
        transfer()($db);
        throw new DomainException('no');
    };
    same('no', thrown(DomainException::class, fn () => Effects::once($db, aJob(), $fail))->getMessage());
    same([false, 0, 0], [$db->inTransaction(), count_($db, 'transfers'), count_($db, 'streamfleet_effects')]);
    // Results that cannot be kept.
    contains('65537 bytes', thrown(LengthException::class, fn () => Effects::once($db, aJob(), static fn () => str_repeat('x', 65535)))->getMessage());
    contains('JSON cannot express what the work returned', thrown(UnexpectedValueException::class, fn () => Effects::once($db, aJob(), static fn () => NAN))->getMessage());
    contains('return an outcome after', thrown(LogicException::class, fn () => Effects::once($db, aJob(), static fn () => new Fatal('no')))->getMessage());
    same(0, count_($db, 'streamfleet_effects'));
    same(str_repeat('x', 65534), Effects::once($db, aJob(), static fn () => str_repeat('x', 65534)));
    same(str_repeat('x', 65534), Effects::once($db, aJob(), static fn () => 1));
});

eachDatabase('work_that_ends_its_transaction_is_an_error', function (Closure $connect): void {
    $db = $connect();
    $error = thrown(LogicException::class, fn () => Effects::once($db, aJob('a'), static fn (PDO $db) => $db->rollBack()));
    contains('has ended its transaction', $error->getMessage());
    $again = static fn (PDO $db): bool => $db->rollBack() && $db->beginTransaction();
    contains('has ended its transaction', thrown(LogicException::class, fn () => Effects::once($db, aJob('a'), $again))->getMessage());
    same([false, 0], [$db->inTransaction(), count_($db, 'streamfleet_effects')]);
    contains('has ended its transaction', thrown(LogicException::class, fn () => Effects::once($db, aJob('b'), static fn (PDO $db) => $db->commit()))->getMessage());
    // Nobody knows what is missing.
    contains('a part of its work', thrown(LogicException::class, fn () => Effects::once($db, aJob('b', '18-0'), transfer()))->getMessage());
});

eachDatabase('misuse_is_refused', function (Closure $connect): void {
    $db = $connect();
    $db->beginTransaction();
    contains('a transaction is open', thrown(LogicException::class, fn () => Effects::once($db, aJob(), transfer()))->getMessage());
    same(true, $db->inTransaction(), 'the transaction of the caller goes on');
    $db->rollBack();
    foreach ([null, '', '17', 'x-0', '9223372036854775808-0', '17-99999999999999999999'] as $fence) {
        contains('no fence', thrown(LogicException::class, fn () => Effects::once($db, aJob(fence: $fence), transfer()))->getMessage());
    }
    foreach ([str_repeat('ü', 65), "a\n", "\xff"] as $step) {
        contains('at most 64 characters', thrown(LogicException::class, fn () => Effects::once($db, aJob(), transfer(), $step))->getMessage());
    }
    contains('at most 64 characters', thrown(LogicException::class, fn () => Effects::once($db, aJob(step: 'a'), transfer(), str_repeat('b', 63)))->getMessage());
    contains('no id', thrown(LogicException::class, fn () => Effects::once($db, aJob(''), transfer()))->getMessage());
    same(0, count_($db, 'streamfleet_effects'));
    Effects::once($db, aJob(fence: '9223372036854775807-9223372036854775807'), transfer(), str_repeat('ü', 64));
    $silent = $connect([PDO::ATTR_ERRMODE => PDO::ERRMODE_SILENT]);
    contains('hides errors', thrown(LogicException::class, fn () => Effects::once($silent, aJob(), transfer()))->getMessage());
});

eachDatabase('options_of_the_connection_change_nothing', function (Closure $connect): void {
    $options = [PDO::ATTR_CASE => PDO::CASE_UPPER, PDO::ATTR_STRINGIFY_FETCHES => true, PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_OBJ, PDO::ATTR_EMULATE_PREPARES => true];
    $mysql = defined('PDO::MYSQL_ATTR_FOUND_ROWS') ? [[PDO::MYSQL_ATTR_FOUND_ROWS => true], [PDO::MYSQL_ATTR_USE_BUFFERED_QUERY => false, PDO::ATTR_EMULATE_PREPARES => false]] : [];
    foreach ([$options, [PDO::ATTR_EMULATE_PREPARES => false], ...$mysql] as $number => $some) {
        $isMysql = $connect()->getAttribute(PDO::ATTR_DRIVER_NAME) === 'mysql';
        if ($number > 1 && !$isMysql) {
            continue;
        }
        $db = $connect($some);
        same(RESULT, Effects::once($db, aJob("job-$number"), transfer()));
        same(RESULT, Effects::once($db, aJob("job-$number", '18-0'), transfer()));
        thrown(Superseded::class, fn () => Effects::once($db, aJob("job-$number", '16-0'), transfer()));
        same(1 + $number, count_($connect(), 'transfers'));
    }
});

eachDatabase('two_attempts_at_once_queue_up', function (Closure $connect, string $dsn): void {
    $db = $connect();
    $driver = $db->getAttribute(PDO::ATTR_DRIVER_NAME);
    $other = null;
    $result = Effects::once($db, aJob(fence: '17-0'), static function (PDO $db) use ($dsn, $driver, &$other, $connect): string {
        $code = 'require ' . var_export(__DIR__ . '/harness.php', true) . '; require ' . var_export(__DIR__ . '/jobs.php', true) . ';
            $db = new PDO(' . var_export($dsn, true) . ', ' . var_export($driver === 'pgsql' ? 'postgres' : 'root', true) . ', ""); echo "ready\n";
            echo Streamfleet\Effects::once($db, aJob(fence: "18-0"), fn () => "second");';
        $process = proc_open([PHP_BINARY, '-r', $code], [['file', '/dev/null', 'r'], ['pipe', 'w']], $pipes);
        same("ready\n", fgets($pipes[1]));
        $other = [$process, $pipes[1]];
        // Where the server shows it, the other one waits now.
        $waits = match ($driver) {
            'mysql' => "SELECT variable_value + 0 FROM information_schema.global_status WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'",
            'pgsql' => "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
            'sqlite' => 'SELECT 1',
        };
        $watcher = $connect();
        eventually(static fn (): bool => (int) $watcher->query($waits)->fetchColumn() === 1, 'the wait of the other attempt');
        return 'first';
    });
    same(['first', 'first'], [$result, stream_get_contents($other[1])]);
    same(0, proc_close($other[0]));
});

eachDatabase('a_killed_program_makes_each_transfer_once', function (Closure $connect, string $dsn): void {
    $db = $connect();
    $user = $db->getAttribute(PDO::ATTR_DRIVER_NAME) === 'pgsql' ? 'postgres' : 'root';
    $count = 30;
    for ($kills = 0; ; $kills += 1) {
        same(true, $kills < 1000, 'the program comes to its end');
        $command = [PHP_BINARY, __DIR__ . '/transfers.php', $dsn, $user, (string) ($kills + 1), (string) $count];
        $process = proc_open($command, [['pipe', 'r'], ['pipe', 'w']], $pipes);
        // A transfer that was made before has two points.
        $points = 2 * count_($db, 'transfers') + random_int(1, 10);
        for (; $points > 0 && fgets($pipes[1]) !== false; $points -= 1) {
            fwrite($pipes[0], "\n");
        }
        for ($end = hrtime(true) + random_int(0, 500_000); hrtime(true) < $end;);
        proc_terminate($process, SIGKILL);
        $code = proc_close($process);
        if ($points > 0) {
            same(0, $code);
            break;
        }
    }
    same(true, $kills > 5, "$kills kills");
    same([(string) -$count, (string) $count], array_map(strval(...), $db->query('SELECT balance FROM accounts ORDER BY name')->fetchAll(PDO::FETCH_COLUMN)));
    same(range(0, $count - 1), array_map(intval(...), $db->query('SELECT number FROM transfers ORDER BY number')->fetchAll(PDO::FETCH_COLUMN)));
});

/** The rows of the outbox, with their payloads as text. */
function outbox(PDO $db): array
{
    $rows = $db->query('SELECT job_id, queue, lane, type, payload, encoding, headers, run_at_ms, options FROM streamfleet_outbox ORDER BY seq')->fetchAll(PDO::FETCH_NUM);
    return array_map(static fn (array $row): array => array_map(static fn (mixed $value): ?string => is_resource($value) ? stream_get_contents($value) : ($value === null ? null : (string) $value), $row), $rows);
}

eachDatabase('a_job_in_the_outbox_is_a_row_of_the_transaction', function (Closure $connect): void {
    $db = $connect();
    $db->beginTransaction();
    $id = Outbox::add($db, 'mail.send', ['to' => "ann\\ü'\0"]);
    same(1, preg_match('/\A[0-9a-f]{32}\z/', $id));
    same(true, $id !== Outbox::add($db, 'mail.send'));
    $db->commit();
    same([[$id, 'default', null, 'mail.send', '{"to":"ann\\\\ü\'\u0000"}', null, null, null, null], ''], [outbox($db)[0], outbox($db)[1][4]]);
    $db->beginTransaction();
    Outbox::add($db, 'mail.send');
    $db->rollBack();
    same(2, count_($db, 'streamfleet_outbox'));
    contains('no transaction is open', thrown(LogicException::class, fn () => Outbox::add($db, 'mail.send'))->getMessage());
    contains('no transaction is open', thrown(LogicException::class, fn () => Outbox::addAll($db, []))->getMessage());
    Outbox::add($db, 'mail.send', autocommit: true);
    same(3, count_($db, 'streamfleet_outbox'));
});

eachDatabase('every_option_is_in_the_row', function (Closure $connect): void {
    $db = $connect();
    $db->beginTransaction();
    $options = ['id' => 'order-7', 'queue' => 'mail', 'runAt' => 1700000000.5, 'expiresAt' => 1800000000, 'maxAttempts' => 4, 'timeout' => 30, 'priority' => 9, 'tracking' => 'all',
        'headers' => ['0' => 'x', 'tenant' => 9], 'onSuccess' => 'b', 'onFailure' => 'c', 'then' => [['type' => 'd']], 'batch' => 'n', 'traceparent' => '00-1-2-01'];
    same('order-7', Outbox::add($db, 'a', "\x81\x00\xff\\", ...$options, encoding: 'msgpack'));
    same([['order-7', 'mail', 'high', 'a', "\x81\x00\xff\\", 'msgpack', '{"0":"x","tenant":"9"}', '1700000000500',
        '{"expires_at_ms":"1800000000000","max_attempts":"4","timeout_ms":"30000","tracking":"all","on_success":"b","on_failure":"c","then":"[{\"type\":\"d\"}]","batch":"n","traceparent":"00-1-2-01"}']], outbox($db));
    $now = (int) (microtime(true) * 1000);
    Outbox::add($db, 'a', delay: 60);
    $due = (int) outbox($db)[1][7];
    same(true, $due >= $now + 60_000 && $due < $now + 120_000, "$due");
    // Tasks and submissions.
    Outbox::add($db, new Welcome('ann'), queue: 'other');
    Outbox::add($db, new Submission('b', 7, lane: 'low'));
    same([['other', 'high', 'mail.welcome', '{"to":"ann"}'], ['default', 'low', 'b', '7']], array_map(static fn (array $row): array => array_slice($row, 1, 4), array_slice(outbox($db), 2)));
    $db->commit();
});

eachDatabase('many_jobs_are_few_statements', function (Closure $connect): void {
    $db = $connect();
    $db->beginTransaction();
    $jobs = static function (): Generator {
        for ($number = 0; $number < 1201; $number += 1) {
            yield 'key' => new Submission('a', $number);
        }
    };
    $ids = Outbox::addAll($db, $jobs());
    same([1201, 1201], [count($ids), count(array_unique($ids))]);
    same(['ann' => 'x', 'bob' => 'y'], Outbox::addAll($db, ['ann' => new Submission('a', id: 'x'), 'bob' => new Submission('a', id: 'y')]));
    // A statement has about 1 MiB.
    Outbox::addAll($db, array_fill(0, 5, new Submission('a', str_repeat('x', 700_000))));
    $db->commit();
    same([1208, range(0, 1200)], [count_($db, 'streamfleet_outbox'), array_map(static fn (array $row): int => (int) $row[4], array_slice(outbox($db), 0, 1201))]);
});

eachDatabase('the_outbox_takes_only_what_the_wire_takes', function (Closure $connect): void {
    $db = $connect();
    $db->beginTransaction();
    contains('not a job type', thrown(InvalidSubmission::class, fn () => Outbox::add($db, 'A'))->getMessage());
    contains('Streamfleet\Cli', thrown(InvalidSubmission::class, fn () => Outbox::add($db, 'a', unique: 'k'))->getMessage());
    contains('JSON cannot express a header', thrown(InvalidSubmission::class, fn () => Outbox::add($db, 'a', headers: ['n' => "\xff"]))->getMessage());
    contains('its own options', thrown(LogicException::class, fn () => Outbox::add($db, new Submission('a'), delay: 1))->getMessage());
    contains('its own payload', thrown(LogicException::class, fn () => Outbox::add($db, new Welcome('ann'), ['to' => 'bob']))->getMessage());
    same(0, count_($db, 'streamfleet_outbox'));
    $db->rollBack();
});

eachDatabase('an_effect_and_a_job_are_one_transaction', function (Closure $connect): void {
    $db = $connect();
    $work = static function (PDO $db): string {
        transfer()($db);
        return Outbox::add($db, 'mail.send', id: 'receipt-7');
    };
    same(['receipt-7', 'receipt-7'], [Effects::once($db, aJob(), $work), Effects::once($db, aJob(fence: '18-0'), $work)]);
    same([1, 1], [count_($db, 'transfers'), count_($db, 'streamfleet_outbox')]);
});
