<?php

// An application on Messenger's Redis transport, and then on streamfleet, with nothing changed but its configuration.

declare(strict_types=1);

use Streamfleet\Messenger\Connection;

require dirname(__DIR__, 2) . '/php/tests/harness.php';
require dirname(__DIR__, 2) . '/php/tests/program.php';
require __DIR__ . '/shop.php';
require __DIR__ . '/app/autoload.php';

test('the_application_does_the_same_on_both_transports', function (): void {
    $notes = [];
    foreach (['redis', 'streamfleet'] as $scheme) {
        $shop = new Shop($scheme);
        $shop->whileWorking(static function () use ($shop): void {
            $shop->dispatch();
            $shop->await(static fn (array $notes): bool => count(preg_grep('/^(handled|failed) /', $notes)) >= 10, 'the end of all messages');
        });
        $notes[$scheme] = $shop->notes();
        sort($notes[$scheme]);
        same(true, $shop->timeOf('welcomed later') - $shop->timeOf('dispatched') > 1.45, "$scheme: the delay");
        same(true, $shop->timeOf('charge master fails, try 3') - $shop->timeOf('charge master fails, try 2') > 0.5, "$scheme: the pause of the retry strategy");
    }
    same($notes['redis'], $notes['streamfleet']);
    contains("order of visa\n", implode("\n", $notes['redis']));
    // A handler that has succeeded is not called again for the sake of another one.
    same(1, count(preg_grep('/^first half of cake/', $notes['streamfleet'])));
    same([2, 2], [count(preg_grep('/^second half of cake/', $notes['streamfleet'])), count(preg_grep('/^mail sent/', $notes['streamfleet']))]);
});

test('a_message_keeps_its_job_over_retries_and_leaves_a_dead_letter', function (): void {
    $shop = new Shop('streamfleet');
    $shop->whileWorking(static function () use ($shop): void {
        $shop->dispatch('Charge', 1, 9);
        [$id, $letter] = eventually(static fn () => ($found = entries('sf:{async}:dead')) === [] ? null : [key($found), current($found)], 'the dead letter', 30);
        contains('RuntimeException: the bank is busy', $letter['dead_error']);
        same(['symfony.message', 'App\Message\Charge'], [$letter['type'], $letter['h.message']]);
        same(3, count(preg_grep('/^charge n0 fails/', $shop->notes())));
        same(0, redis('XLEN', 'sf:{async}:jobs') + redis('ZCARD', 'sf:{async}:delayed'));
    });
});

test('a_message_that_ends_its_program_is_tried_again', function (): void {
    $shop = new Shop('streamfleet');
    $shop->whileWorking(static function () use ($shop): void {
        $shop->dispatch('Leave', 1, 2);
        $shop->dispatch('Welcome');
        $shop->await(static fn (array $notes): bool => array_diff(['left n0, try 1', 'left n0, try 2', 'handled Leave, retries 1', 'welcomed n0'], $notes) === [], 'the second try');
    });
});

test('nothing_is_lost_when_programs_and_workers_are_killed', function (): void {
    $shop = new Shop('streamfleet');
    $shop->dispatch('Wait', 300);
    $start = static fn (): Work => $shop->start(environment: ['STREAMFLEET__WORKER__LEASE' => '1s']);
    $done = static fn (): int => count(array_unique(preg_grep('/^waited/', $shop->notes())));
    $worker = $start();
    foreach ([30, 60, 90, 120] as $kill => $enough) {
        eventually(static fn (): bool => $done() >= $enough, "$enough messages", 60);
        if ($kill % 2 === 0) {
            $worker->killProgram();
        } else {
            $worker->kill();
            $worker = $start();
        }
    }
    try {
        eventually(static fn (): bool => $done() === 300, 'the end of all messages', 60);
        same([], entries('sf:{async}:dead'));
    } finally {
        $worker->stop();
    }
});

test('a_handler_of_batches_gets_several_messages', function (): void {
    $shop = new Shop('streamfleet', ['processes' => 1, 'batch' => 5]);
    $shop->dispatch('Together', 10);
    $shop->whileWorking(static function () use ($shop): void {
        $shop->await(static fn (array $notes): bool => count(preg_grep('/^handled Together/', $notes)) === 10, 'all messages');
        same(true, in_array('together 5', $shop->notes(), true), implode("\n", $shop->notes()));
    });
});

test('messages_are_counted_and_what_cannot_work_says_so', function (): void {
    $shop = new Shop('streamfleet');
    $shop->dispatch('Welcome', 3);
    $port = redisServer();
    $connection = Connection::of("streamfleet://127.0.0.1:$port?queue=async", ['transport_name' => 'async']);
    same(3, $connection->count());
    foreach (['redis://127.0.0.1:6379' => 'streamfleet://127.0.0.1', 'redis://app:a%2Fb@db:1/2' => 'streamfleet://app:a%2Fb@db:1/2?queue=x', 'rediss://:x@db:6379' => 'streamfleets://:x@db'] as $address => $dsn) {
        same($address, Connection::of($dsn, [])->address());
    }
    $invalid = Symfony\Component\Messenger\Exception\InvalidArgumentException::class;
    contains('no option stream', thrown($invalid, static fn () => Connection::of('streamfleet://x?stream=y', []))->getMessage());
    // Symfony's recipe has these for Doctrine, and an application that only changes the address keeps them.
    same('redis://x:6379', Connection::of('streamfleet://x', ['use_notify' => true, 'check_delayed_interval' => 60000])->address());
    $refused = thrown(Symfony\Component\Messenger\Exception\TransportException::class, static fn () => Connection::of('streamfleet://127.0.0.1:1', [])->count());
    contains('Redis does not answer at 127.0.0.1:1', $refused->getMessage());
    contains('is not a queue', thrown(Streamfleet\InvalidSubmission::class, static fn () => Connection::of('streamfleet://x?queue=A', []))->getMessage());
    [$code, $output] = (new Shop('streamfleet', ['program' => '/no/such']))->console('messenger:consume', 'async');
    same(1, $code);
    contains('there is no program /no/such', $output);
    [$code, $output] = (new Shop('streamfleet', dsn: 'streamfleet://127.0.0.2?queue=async'))->console('messenger:consume', 'high', 'async');
    same(1, $code);
    contains('not on one Redis', $output);
});

test('messenger_stop_workers_replaces_the_programs', function (): void {
    $shop = new Shop('streamfleet');
    $shop->whileWorking(static function (Work $worker) use ($shop): void {
        $shop->dispatch('Welcome');
        $shop->await(static fn (array $notes): bool => in_array('welcomed n0', $notes, true), 'the first message');
        $before = $worker->programs();
        same(0, $shop->console('messenger:stop-workers')[0]);
        eventually(static fn (): bool => count($worker->programs()) === 2 && array_intersect($worker->programs(), $before) === [], 'new programs', 60);
        $shop->dispatch('Welcome');
        $shop->await(static fn (array $notes): bool => count(preg_grep('/^welcomed n0/', $notes)) === 2, 'the second message');
    });
});
