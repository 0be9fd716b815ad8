<?php

// An application on Laravel's Redis driver, and then on streamfleet, with nothing changed but its configuration.

declare(strict_types=1);

use Streamfleet\Laravel\StreamfleetQueue;

require dirname(__DIR__, 2) . '/php/tests/harness.php';
require dirname(__DIR__, 2) . '/php/tests/program.php';
require __DIR__ . '/shop.php';

test('the_application_does_the_same_on_both_drivers', function (): void {
    $notes = [];
    foreach (['redis', 'streamfleet'] as $driver) {
        $shop = new Shop($driver);
        $queued = null;
        $shop->whileWorking(['--queue=default,high', '--timeout=20'], static function () use ($shop, &$queued): void {
            $queued = $shop->run('shop.php');
            $shop->awaitNotes(static fn (array $notes): bool => count(preg_grep('/^(JobProcessed|JobFailed) /', $notes)) >= 19, 'the end of all jobs');
        });
        $notes[$driver] = $shop->notes();
        sort($notes[$driver]);
        same('15', $queued, "$driver: events JobQueued");
        same(1, substr_count((string) file_get_contents($shop->mailLog), 'Order 7 has been shipped.'), "$driver: mails");
        same(['the bank is busy', 'no more', 'App\Jobs\Slow has been attempted too many times or run too long'], array_map($shop->failure(...), ['ChargeCard', 'Release', 'Slow']), $driver);
        same(true, $shop->timeOf('processed later on default, attempt 1') - $shop->timeOf('dispatched') > 1.0, "$driver: the delay");
        same(0, $shop->size());
    }
    same($notes['redis'], $notes['streamfleet']);
    contains('charged visa, attempt 3', implode("\n", $notes['redis']));
    contains('batch of 2 done', implode("\n", $notes['redis']));
    same([], preg_grep('/rolled back|secret second/', $notes['redis']));
});

test('dead_letters_say_why_and_attempts_count', function (): void {
    $shop = new Shop('streamfleet');
    $shop->whileWorking([], static function () use ($shop): void {
        $shop->dispatch('new App\Jobs\ChargeCard("visa", 9)');
        $letter = eventually(static fn () => current(entries('sf:{default}:dead')), 'the dead letter', 30);
        contains('RuntimeException: the bank is busy', $letter['dead_error']);
        same(['laravel.job', 'App\Jobs\ChargeCard'], [$letter['type'], $letter['h.job']]);
        // queue:retry works as before, on the job that failed_jobs has.
        contains('pushed back', $shop->artisan('queue:retry', 'all'));
        $shop->awaitNotes(static fn (array $notes): bool => count(preg_grep('/^failed visa/', $notes)) === 2, 'the second failure');
    });
});

test('a_job_that_ends_its_program_is_tried_again', function (): void {
    $shop = new Shop('streamfleet');
    $shop->whileWorking(['--tries=2'], static function () use ($shop): void {
        $shop->dispatch('new App\Jobs\Leave()');
        $shop->dispatch('new App\Jobs\ProcessPodcast("after")');
        $shop->awaitNotes(static fn (array $notes): bool => preg_grep('/^left, attempt 2|^processed after/', $notes) == array_intersect($notes, ['left, attempt 2', 'processed after on default, attempt 1']) && in_array('JobFailed App\Jobs\Leave', $notes, true), 'the second attempt');
        same(['left, attempt 1', 'left, attempt 2'], array_values(preg_grep('/^left/', $shop->notes())));
    });
});

test('nothing_is_lost_when_programs_and_workers_are_killed', function (): void {
    $shop = new Shop('streamfleet');
    $shop->dispatchMany('App\Jobs\ProcessPodcast', 300);
    $start = static fn (): Work => $shop->start(['--tries=10'], ['STREAMFLEET__WORKER__LEASE' => '1s']);
    $worker = $start();
    foreach ([30, 60, 90, 120] as $kill => $enough) {
        eventually(static fn (): bool => $shop->podcasts() >= $enough, "$enough jobs", 60);
        if ($kill % 2 === 0) {
            $worker->killProgram();
        } else {
            $worker->kill();
            $worker = $start();
        }
    }
    try {
        eventually(static fn (): bool => $shop->podcasts() === 300, 'the end of all jobs', 60);
        same([], preg_grep('/^JobFailed/', $shop->notes()));
    } finally {
        $worker->stop();
    }
});

test('sizes_are_counted_and_a_queue_is_cleared', function (): void {
    $shop = new Shop('streamfleet');
    $shop->dispatchMany('App\Jobs\ProcessPodcast', 3);
    $shop->dispatch('(new App\Jobs\ProcessPodcast("later"))->delay(600)');
    $shop->dispatch('(new App\Jobs\ProcessPodcast("else"))->onQueue("Emails.High")');
    // Delayed jobs are entries until a worker has seen them.
    same('4,4,0,0,1', $shop->eval('$q = $app["queue"]->connection(); echo implode(",", [$q->size(), $q->pendingSize(), $q->delayedSize(), $q->reservedSize(), $q->size("Emails.High")]);'));
    same(true, abs(time() - (int) $shop->eval('echo $app["queue"]->connection()->creationTimeOfOldestPendingJob();')) < 60);
    same('', $shop->eval('echo $app["queue"]->connection()->creationTimeOfOldestPendingJob("empty");'));
    same(1, redis('XLEN', 'sf:{emails-high}:jobs'));
    contains('Cleared 4 jobs', $shop->artisan('queue:clear', '--force'));
    same(0, $shop->size());
    $shop->whileWorking(['--queue=Emails.High'], static fn () => $shop->awaitNotes(static fn (array $notes): bool => in_array('processed else on Emails.High, attempt 1', $notes, true), 'the job'));
});

test('programs_that_reach_a_limit_are_replaced_and_lose_nothing', function (): void {
    $shop = new Shop('streamfleet');
    $shop->dispatchMany('App\Jobs\ProcessPodcast', 60);
    $shop->whileWorking(['--max-jobs=10'], static function () use ($shop): void {
        $shop->awaitNotes(static fn (): bool => $shop->podcasts() === 60, 'all jobs');
        same([], preg_grep('/attempt [2-9]|^JobFailed/', $shop->notes()));
    });
});

test('predis_serves_as_well', function (): void {
    if (!is_file('/usr/share/php/Predis/autoload.php')) {
        throw new Skipped('there is no Predis (Debian: php-predis)');
    }
    $shop = new Shop('streamfleet', client: 'predis');
    $shop->dispatch('(new App\Jobs\ProcessPodcast("by predis"))->delay(1)');
    same('1,0', $shop->eval('$q = $app["queue"]->connection(); echo implode(",", [$q->size(), $q->reservedSize()]);'));
    $shop->whileWorking([], static fn () => $shop->awaitNotes(static fn (array $notes): bool => in_array('processed by predis on default, attempt 1', $notes, true), 'the job'));
});

test('queue_restart_replaces_the_programs', function (): void {
    $shop = new Shop('streamfleet');
    $shop->whileWorking([], static function (Work $worker) use ($shop): void {
        $before = eventually(static fn (): array|false => $worker->programs() ?: false, 'the program');
        // Laravel compares whole seconds.
        $shop->dispatch('new App\Jobs\ProcessPodcast("before")');
        $shop->awaitNotes(static fn (array $notes): bool => count($notes) === 2, 'the first job');
        contains('Broadcasting queue restart signal', $shop->artisan('queue:restart'));
        eventually(static fn (): bool => array_diff($worker->programs(), $before) !== [] && array_intersect($worker->programs(), $before) === [], 'new programs', 60);
        $shop->dispatch('new App\Jobs\ProcessPodcast("after")');
        $shop->awaitNotes(static fn (array $notes): bool => in_array('processed after on default, attempt 1', $notes, true), 'the second job');
    });
});

test('what_cannot_work_says_so', function (): void {
    $shop = new Shop('streamfleet');
    contains('--once cannot be used', $shop->fails('queue:work', '--once'));
    contains('there is no program /no/such', (new Shop('streamfleet', '/no/such'))->fails('queue:work'));
    contains('is not a queue', $shop->fails('queue:work', '--queue=ä'));
    contains('start php artisan queue:work', $shop->eval('try { $app["queue"]->connection()->pop(); } catch (LogicException $error) { echo $error->getMessage(); }'));
});

test('a_connection_needs_no_section_and_names_its_redis', function (): void {
    $shop = new Shop('streamfleet');
    $address = static fn (string $redis): string => $shop->eval('$app["config"]->set("database.redis", [' . $redis . ']);
        $connector = new Streamfleet\Laravel\StreamfleetConnector($app["redis"], $app["config"]);
        echo (new ReflectionMethod($connector, "address"))->invoke($connector, "default");');
    same('redis://127.0.0.1:6379', $address('"default" => ["host" => "127.0.0.1"]'));
    same('redis://app:a%2Fb@db:1/2', $address('"default" => ["host" => "db", "port" => 1, "username" => "app", "password" => "a/b", "database" => "2"]'));
    same('rediss://:x@db:6379', $address('"default" => ["host" => "tls://db", "password" => "x"]'));
    same('redis+unix:///run/redis.sock', $address('"default" => ["host" => "/run/redis.sock", "port" => 0]'));
    same('redis://given', $address('"default" => ["url" => "redis://given"]'));
    same('redis-cluster://a:7000', $address('"clusters" => ["default" => [["host" => "a", "port" => 7000]]]'));
    same('streamfleet', $shop->eval('$app["config"]->set("queue.connections.streamfleet", null); (new Streamfleet\Laravel\StreamfleetServiceProvider($app))->register(); echo $app["config"]->get("queue.connections.streamfleet.driver");'));
});
