<?php

// The producer over HTTP: against a real console, through a proxy that loses replies, and without a server.

declare(strict_types=1);

use Streamfleet\{BulkError, Http, InvalidSubmission, JobFailed, Refused, Submission, Unconfirmed};

require __DIR__ . '/harness.php';
require __DIR__ . '/program.php';

function http(?string $url = null, mixed ...$options): Http
{
    [$console, $token] = console();
    return new Http($url ?? $console, $token, ...$options);
}

/** A proxy before the console that swallows the first answers, and then closes the connection. Its address. */
function losing(int $answers): string
{
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    $address = stream_socket_get_name($listener, false);
    $pid = pcntl_fork();
    if ($pid === 0) {
        while (($client = stream_socket_accept($listener, 60)) !== false) {
            $server = stream_socket_client('tcp://' . substr(console()[0], strlen('http://')));
            while (true) {
                $read = [$client, $server];
                $none = null;
                if (stream_select($read, $none, $none, 10) < 1) {
                    break;
                }
                $part = fread($read[0] ?? reset($read), 65536);
                if ($part === '' || $part === false || reset($read) === $server && $answers-- > 0) {
                    break;
                }
                fwrite(reset($read) === $client ? $server : $client, $part);
            }
            fclose($client);
            fclose($server);
        }
        posix_kill(posix_getpid(), SIGKILL);
    }
    fclose($listener);
    atEnd(static function () use ($pid): void {
        posix_kill($pid, SIGKILL);
        pcntl_waitpid($pid, $status);
    });
    return "http://$address";
}

test('an_id_is_accepted_once', function (): void {
    $http = http();
    redis('FLUSHALL');
    $job = new Submission('mail.send', ['to' => 'Ännchen', 'n' => 1.0], id: 'order-7', headers: ['tenant' => '9'], timeout: 1.5, maxAttempts: 3, delay: 60);
    $first = $http->submitOrFind($job, idempotentFor: '48h');
    same(['order-7', 'scheduled', true, null, false], array_values(get_object_vars($first)));
    same(false, $http->submitOrFind($job)->isNew);
    same('order-7', $http->enqueue('mail.send', ['to' => 'bob'], id: 'order-7'));
    same(1, redis('ZCARD', 'sf:{default}:delayed'));
    $status = $http->status('order-7');
    same(['order-7', 'scheduled', 'mail.send', false], [$status->id, $status->state, $status->type, $status->isFinal()]);
    same(null, $http->status('no-such-job'));
    same('1', $http->enqueue('a', id: '1', lane: 'high', queue: 'other', then: [['type' => 'b']], tracking: 'all', expiresAt: time() + 60));
    same(1, redis('XLEN', 'sf:{other}:jobs:high'));
});

test('a_unique_key_keeps_others_out', function (): void {
    $http = http();
    redis('FLUSHALL');
    $first = $http->submitOrFind(new Submission('report', ['n' => 1], unique: 'report-11'));
    $second = $http->submitOrFind(new Submission('report', ['n' => 2], unique: 'report-11', uniqueScope: 'running'));
    same([true, false, $first->id], [$first->isNew, $second->isNew, $second->id]);
    $third = $http->submitOrFind(new Submission('report', ['n' => 3], unique: 'report-11', uniqueMode: 'replace'));
    same([true, $first->id], [$third->isNew, $third->replaced]);
});

test('many_jobs_are_one_request_and_keep_their_keys', function (): void {
    $http = http();
    redis('FLUSHALL');
    $ids = $http->enqueueMany(['ann' => new Submission('a', 1, id: 'x'), 'bob' => new Submission('a', 2, queue: 'other'), 'cid' => new Submission('a', 'Ä', encoding: 'raw', queue: 'default', id: 'y')]);
    same(['ann', 'bob', 'cid'], array_keys($ids));
    same([2, 1], [redis('XLEN', 'sf:{default}:jobs'), redis('XLEN', 'sf:{other}:jobs')]);
    same(300, count($http->enqueueMany((static fn () => yield from array_map(static fn (int $n) => new Submission('a', $n), range(1, 300)))())));
    same([], $http->enqueueMany([]));
    $error = thrown(BulkError::class, fn () => $http->enqueueMany(['good' => new Submission('a', id: 'z'), 'bad' => new Submission('a', id: 'key-' . str_repeat('0', 40))]));
    same([['good' => 'z'], ['bad']], [$error->accepted, array_keys($error->refused)]);
});

test('a_job_is_waited_for', function (): void {
    $http = http();
    redis('FLUSHALL');
    withWorker("[types.echo]\nhandler = { exec = { command = [\"cat\"] } }\ntracking = \"all\"\n[types.fails]\nhandler = { exec = { command = [\"sh\", \"-c\", \"echo no such user >&2; exit 65\"] } }\n", function () use ($http): void {
        $id = $http->enqueue('echo', ['n' => '18446744073709551615']);
        same(['n' => '18446744073709551615'], $http->wait($id, 20)->result());
        same('done', $http->status($id)->state);
        $dead = $http->enqueue('fails', id: 'dead');
        same('dead', $http->wait($dead, 20)->state);
        contains('no such user', thrown(JobFailed::class, fn () => $http->result($dead))->getMessage());
        same(null, $http->wait($http->enqueue('echo', 1, delay: 60), 0.3));
    });
});

test('a_batch_is_opened_once_and_followed', function (): void {
    $http = http();
    redis('FLUSHALL');
    withWorker("[types.member]\nhandler = { exec = { command = [\"cat\"] } }\n[types.total]\nhandler = { exec = { command = [\"cat\"] } }\n", function () use ($http): void {
        $members = [new Submission('member', ['n' => 1]), new Submission('member', "{\n\"n\": 2}", id: 'own', encoding: 'json')];
        $follow = new Submission('total', ['month' => 11], id: 'total-11');
        same(['invoices-11.0', 'own'], http(losing(1))->batch('invoices-11', $members, $follow));
        same(['month' => 11], $http->wait('total-11', 30)->result());
        same(['invoices-11.0', 'own'], $http->batch('invoices-11', $members, $follow), 'again');
    });
    contains('/members/0/unique_mode', thrown(InvalidSubmission::class, fn () => $http->batch('b', [new Submission('a', unique: 'k', uniqueMode: 'x')], new Submission('b')))->getMessage());
});

test('a_job_belongs_to_its_trace', function (): void {
    $http = http();
    redis('FLUSHALL');
    $parent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    $http->enqueue('a', traceparent: $parent);
    same($parent, current(entries('sf:{default}:jobs'))['traceparent']);
});

test('a_lost_reply_does_not_submit_a_job_twice', function (): void {
    console();
    redis('FLUSHALL');
    $http = http(losing(2));
    $id = $http->enqueue('mail.send', ['to' => 'ann']);
    same([1, true], [redis('XLEN', 'sf:{default}:jobs'), str_starts_with($id, 'key-')]);
    same(20, count($http->enqueueMany(array_map(static fn (int $n) => new Submission('a', $n), range(1, 20)))));
    same(21, redis('XLEN', 'sf:{default}:jobs'));
    $many = http(losing(1))->enqueueMany(array_map(static fn (int $n) => new Submission('a', $n), range(1, 20)));
    same([20, 41], [count(array_unique($many)), redis('XLEN', 'sf:{default}:jobs')]);
    thrown(Unconfirmed::class, fn () => http(losing(9))->enqueue('a'));
    $error = thrown(BulkError::class, fn () => http(losing(9), tries: 1)->enqueueMany(['x' => new Submission('a')]));
    same(['x'], array_keys($error->unknown));
});

test('errors_say_what_was_wrong_and_what_to_do', function (): void {
    [$url, $token] = console();
    contains('/unique_mode', thrown(InvalidSubmission::class, fn () => http()->enqueue('refused', unique: 'k', uniqueMode: 'sometimes'))->getMessage());
    contains('streamfleet console token', thrown(Refused::class, fn () => (new Http($url, 'wrong'))->enqueue('refused'))->getMessage());
    $port = freePort();
    contains("127.0.0.1:$port cannot be reached", thrown(Refused::class, fn () => (new Http("http://127.0.0.1:$port", $token))->enqueue('refused'))->getMessage());
    contains('white space', thrown(InvalidArgumentException::class, fn () => new Http($url, "token\n"))->getMessage());
    contains('address of a console', thrown(InvalidArgumentException::class, fn () => new Http('127.0.0.1:9470', $token))->getMessage());
    contains('MessagePack', thrown(InvalidSubmission::class, fn () => http()->enqueue('refused', "\x01", encoding: 'msgpack'))->getMessage());
    // What the test before has sent may still arrive.
    same(false, str_contains(json_encode(redis('XRANGE', 'sf:{default}:jobs', '-', '+')), 'refused'));
});

test('a_server_that_is_silent_is_given_up_in_time', function (): void {
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    $http = new Http('http://' . stream_socket_get_name($listener, false), 'token', timeout: 0.2, tries: 2);
    $start = hrtime(true);
    thrown(Unconfirmed::class, fn () => $http->enqueue('a'));
    same(true, hrtime(true) - $start < 5e9);
    fclose($listener);
});
