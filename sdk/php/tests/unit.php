<?php

// Submissions, tasks and times: what is sent, without a server.

declare(strict_types=1);

use Streamfleet\{InvalidSubmission, JobType, Status, Submission, Task, Tasks};

require __DIR__ . '/harness.php';

enum Size: string
{
    case Small = 's';
}

#[JobType('mail.send', queue: 'mail', maxAttempts: 4, timeout: 30, priority: 9)]
final class SendMail extends Task
{
    public static int $sent = 0;
    public ?string $later;

    public function __construct(public readonly string $to, public ?Size $size = null, public array $more = [], protected string $secret = 'x')
    {
    }

    public function handle(Streamfleet\Job $job): mixed
    {
        return null;
    }
}

final class Unnamed
{
    public mixed $value = null;
}

/** The XADD of a submission, without its first two words. */
function xadd(mixed ...$options): array
{
    $command = (new Submission(...$options))->command('sf', 'default');
    same(['XADD', '*'], [$command[0], $command[2]]);
    return array_merge([$command[1]], array_slice($command, 3));
}

function refused(string $rule, mixed ...$options): void
{
    contains($rule, thrown(InvalidSubmission::class, fn () => new Submission(...$options))->getMessage());
}

test('a_plain_job_is_its_type_and_payload', function (): void {
    same(['sf:{default}:jobs', 'type', 'mail.send'], xadd('mail.send'));
    same(['sf:{default}:jobs', 'type', 'mail.send', 'payload', '{"to":"Grüße/"}'], xadd('mail.send', ['to' => 'Grüße/']));
    same(['sf:{mail}:jobs', 'type', 'a', 'payload', '[]'], xadd('a', [], queue: 'mail'));
    same(['sf:{default}:jobs', 'type', 'a', 'payload', '""'], xadd('a', ''));
});

test('every_option_is_its_field', function (): void {
    same([
        'sf:{default}:jobs:high', 'type', 'a', 'payload', '1', 'id', 'order-7', 'delay_ms', '1500', 'expires_at_ms', '1796119200000',
        'max_attempts', '4', 'timeout_ms', '30000', 'tracking', 'all', 'on_success', 'b', 'on_failure', 'c',
        'then', '[{"type":"d","payload":{"n":1}},{"type":"e","on_failure":"f","queue":"mail"}]', 'batch', 'b1', 'traceparent', '00-1-2-01', 'h.tenant', '9', 'h.flag', 'true',
    ], xadd('a', 1, id: 'order-7', delay: 1.5, expiresAt: new DateTime('2026-12-01T10:00:00Z'), maxAttempts: 4, timeout: 30, tracking: 'all',
        onSuccess: 'b', onFailure: 'c', then: [['type' => 'd', 'payload' => ['n' => 1]], ['type' => 'e', 'on_failure' => 'f', 'queue' => 'mail']], batch: 'b1',
        traceparent: '00-1-2-01', headers: ['tenant' => 9, 'flag' => true], lane: 'high'));
    same(['sf:{default}:jobs', 'type', 'a', 'payload', "\x81\x01", 'encoding', 'msgpack'], xadd('a', "\x81\x01", encoding: 'msgpack'));
});

test('a_priority_is_a_lane', function (): void {
    $lanes = array_map(fn (int $priority): string => (new Submission('a', priority: $priority))->lane, range(1, 10));
    same(['low', 'low', 'low', 'normal', 'normal', 'normal', 'normal', 'high', 'high', 'high'], $lanes);
});

test('a_derived_id_names_its_lane', function (): void {
    same('17-0', (new Submission('a'))->idOf('17-0'));
    same('17-0-high', (new Submission('a', lane: 'high'))->idOf('17-0'));
    same('17-0-low', (new Submission('a', lane: 'low'))->idOf('17-0'));
    same('mine', (new Submission('a', id: 'mine', lane: 'low'))->idOf('17-0'));
});

test('times_are_whole_milliseconds', function (): void {
    // Each of these multiplied by 1000 is not a whole number, or has an exponent as text.
    foreach (['0.29' => 290, '1.1' => 1100, '1.0E+9' => 1_000_000_000_000, '0.0001' => 0, '4.35' => 4350] as $seconds => $ms) {
        same((string) $ms, xadd('a', delay: (float) $seconds)[4], (string) $seconds);
    }
    same(['run_at_ms', '1700000000123'], array_slice(xadd('a', runAt: 1700000000.123), 3));
    same(['run_at_ms', '1700000000123'], array_slice(xadd('a', runAt: new DateTimeImmutable('2023-11-14T23:13:20.123999+01:00')), 3));
    same('90000', xadd('a', delay: new DateInterval('PT1M30S'))[4]);
    foreach ([-1, -0.001, NAN, INF, -INF, 1e300, 253_402_300_800, PHP_INT_MAX] as $wrong) {
        refused('must lie before', 'a', delay: $wrong);
        refused('must lie before', 'a', runAt: $wrong);
    }
    refused('runAt must be a date, or seconds since 1970', 'a', runAt: 60);
    refused('expiresAt must be a date, or seconds since 1970', 'a', expiresAt: 60.5);
    refused('must lie before', 'a', runAt: new DateTime('1969-12-31T00:00:00Z'));
    refused('must lie before', 'a', runAt: new DateTime('@253402300800'));
    refused('timeout', 'a', timeout: 0);
    refused('timeout', 'a', timeout: 604801);
});

test('numbers_keep_their_value', function (): void {
    $before = ini_set('serialize_precision', '17');
    same('{"price":0.1,"whole":1.0,"big":9223372036854775807,"float":1.0e+25}', xadd('a', ['price' => 0.1, 'whole' => 1.0, 'big' => PHP_INT_MAX, 'float' => 1e25])[4]);
    same('17', ini_get('serialize_precision'));
    ini_set('serialize_precision', $before);
    refused('JSON cannot express', 'a', ['n' => NAN]);
    refused('JSON cannot express', 'a', "\xff");
});

test('what_breaks_the_contract_is_refused', function (): void {
    foreach (['', 'Mail', '.a', 'a b', "a\n", str_repeat('a', 129)] as $type) {
        refused('not a job type', $type);
    }
    foreach (['', 'Mail', 'a.b', 'a}', "a\n"] as $queue) {
        refused('not a queue', 'a', queue: $queue);
    }
    foreach (['', 'a b', "a\u{a0}b", "a\u{2028}", "a\x7f", "\xff", "a\n", '1700000000000-0', '1-0-high', str_repeat('a', 129)] as $id) {
        refused('an id must have', 'a', id: $id);
    }
    same('größe', (new Submission('a', id: 'größe'))->id);
    refused('batch', 'a', batch: 'a b');
    refused('maxAttempts', 'a', maxAttempts: 0);
    refused('maxAttempts', 'a', maxAttempts: 4_294_967_296);
    refused('a delay or a runAt', 'a', delay: 1, runAt: 1);
    refused('a lane or a priority', 'a', lane: 'low', priority: 1);
    refused('lane must be', 'a', lane: 'urgent');
    refused('priority must be', 'a', priority: 11);
    refused('tracking must be', 'a', tracking: 'some');
    refused('encoding must be', 'a', 'x', encoding: 'xml');
    refused('encoded bytes', 'a', ['x'], encoding: 'json');
    refused('at most 8388608', 'a', str_repeat('x', 8 * 1024 * 1024));
    refused('too long', 'a', headers: ['a' => str_repeat('x', 8193)]);
    refused('too long', 'a', headers: ['' => 'x']);
    refused('is not text', 'a', headers: ['a' => ['x']]);
    refused('onSuccess', 'a', onSuccess: 'B');
    refused('each job of then', 'a', then: [['payload' => 1]]);
    refused('each job of then', 'a', then: [['type' => 'b', 'delay' => 1]]);
    refused('each job of then', 'a', then: [['type' => 'B']]);
    refused('queue of each job of then', 'a', then: [['type' => 'b', 'queue' => 'No']]);
    refused('at most 64', 'a', then: array_fill(0, 65, ['type' => 'b']));
    refused('65536', 'a', then: [['type' => 'b', 'payload' => str_repeat('x', 65536)]]);
    refused('need unique', 'a', uniqueMode: 'replace');
    refused('uniqueScope', 'a', unique: 'k', uniqueScope: -1);
    foreach ([[30, '30000ms'], [0.5, '500ms'], [new DateInterval('PT1M'), '60000ms'], ['30s', '30s'], ['waiting', 'waiting'], [null, null]] as [$scope, $text]) {
        same($text, (new Submission('a', unique: 'k', uniqueScope: $scope))->uniqueScope);
    }
    contains('Streamfleet\Cli', thrown(InvalidSubmission::class, fn () => xadd('a', unique: 'key'))->getMessage());
});

test('a_task_is_a_job_with_its_public_properties', function (): void {
    $job = Tasks::submission(new SendMail('ann', Size::Small, ['at' => new DateTimeImmutable('2026-12-01T10:00:00.5Z')]), []);
    same(['sf:{mail}:jobs:high', 'mail.send', '{"to":"ann","size":"s","more":{"at":"2026-12-01T10:00:00.500000+00:00"}}', '4', '30000'], [
        $job->command('sf', 'default')[1], $job->type, $job->bytes, $job->fields()['max_attempts'], $job->fields()['timeout_ms'],
    ]);
    $job = Tasks::submission(new SendMail('ann'), ['lane' => 'low', 'maxAttempts' => 9, 'queue' => 'other']);
    same(['sf:{other}:jobs:low', '9'], [$job->command('sf', 'default')[1], $job->fields()['max_attempts']]);
});

test('a_task_survives_the_journey', function (): void {
    $sent = new SendMail('ann', Size::Small, ['list' => [1, 2.0, null]]);
    $revived = Tasks::revive(SendMail::class, json_decode(Tasks::submission($sent, [])->bytes, true));
    same([$sent->to, $sent->size, $sent->more], [$revived->to, $revived->size, $revived->more]);
});

test('classes_without_an_attribute_need_a_name', function (): void {
    contains("Unnamed has no job type", thrown(LogicException::class, fn () => Tasks::submission(new Unnamed(), []))->getMessage());
    Tasks::map([Unnamed::class => 'un.named']);
    same(['un.named', '{"value":null}'], [Tasks::submission(new Unnamed(), [])->type, Tasks::submission(new Unnamed(), [])->bytes]);
    $task = new Unnamed();
    $task->value = new ArrayObject();
    contains('ArrayObject, which cannot be sent', thrown(InvalidSubmission::class, fn () => Tasks::submission($task, []))->getMessage());
    contains('submitBy', thrown(LogicException::class, fn () => Streamfleet\dispatch(new Unnamed()))->getMessage());
});

test('a_status_is_read_from_the_fields_of_a_record', function (): void {
    $values = ['state' => 'done', 'type' => 'a', 'created_ms' => '17', 'result' => '{"n":18446744073709551615}', 'error' => 'an earlier one', 'progress' => '40', 'note' => 'page 2'];
    $status = Status::of('x', array_values($values));
    same(['done', 'a', 17, ['n' => '18446744073709551615'], null, 40, 'page 2', true], [$status->state, $status->type, $status->createdMs, $status->result, $status->error, $status->percent, $status->note, $status->isFinal()]);
    $status = Status::of('x', array_values(['state' => 'retrying', 'result' => null] + array_fill_keys(Status::FIELDS, null)));
    same(null, Status::of('x', array_fill(0, 7, null)));
    same("\xff", Status::of('x', ['done', 'a', null, '{"encoding": "base64", "data": "/w=="}', null, null, null])->result);
    same('not json', Status::of('x', ['done', 'a', null, 'not json', null, null, null])->result);
});

/** A stream whose writes and reads let other fibers go on, as those of Swoole do, and do a part at a time. */
final class Slow
{
    public static string $written = '';
    /** @var list<string> */
    public static array $parts = [];
    /** @var ?resource */
    public $context;

    public function stream_open(string $path, string $mode, int $options, ?string &$opened): bool
    {
        return true;
    }

    public function stream_write(string $data): int
    {
        Fiber::suspend();
        self::$written .= substr($data, 0, 3);
        return min(3, strlen($data));
    }

    public function stream_read(int $count): string
    {
        $part = (string) array_shift(self::$parts);
        Fiber::suspend();
        return $part;
    }

    public function stream_eof(): bool
    {
        return false;
    }

    public function stream_cast(int $as): mixed
    {
        return fopen('/dev/zero', 'r');
    }

    public function stream_set_option(int $option, int $first, ?int $second): bool
    {
        return true;
    }
}

test('lines_stay_whole_when_coroutines_wait_within_reads_and_writes', function (): void {
    stream_wrapper_register('slow', Slow::class);
    $mirror = new ReflectionClass(Streamfleet\Pipe::class);
    $pipe = $mirror->newInstanceWithoutConstructor();
    $mirror->getConstructor()->invoke($pipe, fopen('slow://in', 'r'), fopen('slow://out', 'w'));
    $pipe->waitBy(static fn (): bool => true);
    $run = static function (Closure ...$bodies): void {
        $fibers = array_map(static fn (Closure $body): Fiber => new Fiber($body), $bodies);
        array_walk($fibers, static fn (Fiber $fiber) => $fiber->start());
        while ($fibers !== []) {
            // The last one first, so that what was begun later ends earlier.
            array_map(static fn (Fiber $fiber) => $fiber->isTerminated() || $fiber->resume(), array_reverse($fibers));
            $fibers = array_filter($fibers, static fn (Fiber $fiber): bool => !$fiber->isTerminated());
        }
    };
    $run(fn () => $pipe->write("first line\n"), fn () => $pipe->write("second line\n"), fn () => same(true, $pipe->isWriting()));
    same(["first line\nsecond line\n", false], [Slow::$written, $pipe->isWriting()]);
    Slow::$parts = ['{"a', "\":1}\n{\"b\":", "2}\n"];
    $lines = [];
    $read = static function () use ($pipe, &$lines): void {
        for ($turn = 0; $turn < 20; $turn++) {
            $line = $pipe->line(1);
            $lines = $line === null ? $lines : [...$lines, $line];
        }
    };
    $run($read, $read);
    same(['{"a":1}', '{"b":2}'], $lines);
});
