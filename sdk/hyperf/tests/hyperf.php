<?php

// An application on Hyperf's Redis driver, as its documentation describes that, and then on streamfleet, with one line of its
// configuration changed. Hyperf and Swoole are stand-ins: see tests/contract.

declare(strict_types=1);

require dirname(__DIR__, 2) . '/php/tests/harness.php';
require dirname(__DIR__, 2) . '/php/tests/program.php';
require __DIR__ . '/shop.php';

test('the_application_does_the_same_on_both_drivers', function (): void {
    $notes = [];
    foreach ([['Hyperf\AsyncQueue\Driver\RedisDriver::class', false], [Shop::STREAMFLEET, false], [Shop::STREAMFLEET, true]] as [$driver, $isSwoole]) {
        $shop = new Shop($driver, isSwoole: $isSwoole);
        $shop->whileWorking(static function () use ($shop): void {
            $start = microtime(true);
            $shop->run('shop.php');
            $shop->await('mailed later');
            same(true, microtime(true) - $start > 1.0);
            foreach (['charged visa', 'failed amex: the bank is busy', 'answers requeue, time 2', 'answers retry, time 2', 'counted the first one'] as $note) {
                $shop->await($note);
            }
            $shop->await('AfterHandle publish');
            $shop->await('AfterHandle Answer', 5);
        });
        $notes[] = $shop->notes();
        sort($notes[array_key_last($notes)]);
    }
    [$own, $ours, $coroutines] = $notes;
    same($own, $ours);
    same($own, $coroutines);
    same([6, 2, 1], [count(preg_grep('/^BeforeHandle ChargeCard/', $own)), count(preg_grep('/^RetryHandle ChargeCard, 2/', $own)), count(preg_grep('/^FailedHandle ChargeCard, 3/', $own))]);
    same([], preg_grep('/answers drop, time 2/', $own));
});

test('a_delay_is_waited_for_and_a_delayed_job_is_deleted', function (): void {
    $shop = new Shop(Shop::STREAMFLEET);
    $shop->eval('$driver->push(new App\Job\SendMail("bob"), 600); $driver->push(new App\Job\SendMail("cid"), 600); $driver->push(new App\Job\SendMail("bob"));');
    $shop->whileWorking(static function () use ($shop): void {
        $shop->await('mailed bob');
        eventually(static fn (): bool => $shop->eval('echo json_encode($driver->info());') === '{"waiting":0,"delayed":2,"failed":0,"timeout":0}', 'two delayed jobs');
        same('1,', $shop->eval('echo $driver->delete(new App\Job\SendMail("bob")), ",", $driver->delete(new App\Job\SendMail("bob"));'));
        same(1, redis('ZCARD', 'sf:{queue}:delayed'));
    });
    same(1, $shop->count('mailed'));
});

test('a_delayed_job_is_deleted_before_a_worker_has_seen_it', function (): void {
    $shop = new Shop(Shop::STREAMFLEET);
    same('1', $shop->eval('$driver->push(new App\Job\SendMail("bob"), 600); $driver->push(new App\Job\SendMail("bob")); echo $driver->delete(new App\Job\SendMail("bob"));'));
    same('{"waiting":1,"delayed":0,"failed":0,"timeout":0}', $shop->eval('echo json_encode($driver->info());'));
});

test('failed_jobs_are_listed_reloaded_and_flushed', function (): void {
    $shop = new Shop(Shop::STREAMFLEET);
    $shop->whileWorking(static function () use ($shop): void {
        $shop->eval('$driver->push(new App\Job\ChargeCard("amex", 3)); $driver->push(new App\Job\ChargeCard("visa", 9));');
        $shop->await('failed', 2);
        eventually(static fn (): bool => redis('XLEN', 'sf:{queue}:dead') === 2, 'two dead letters');
        $letter = current(entries('sf:{queue}:dead'));
        contains('RuntimeException: the bank is busy', $letter['dead_error']);
        same(['hyperf.job', 'App\Job\ChargeCard', 'raw'], [$letter['type'], $letter['h.job'], $letter['encoding']]);
        contains('failed count is 2', $shop->hyperf('queue:info'));
        contains('App\Job\ChargeCard: RuntimeException: the bank is busy', $shop->hyperf('streamfleet:letters', '--job', 'App\Job\ChargeCard'));
        same('', $shop->hyperf('streamfleet:letters', '--job', 'App\Job\SendMail'));
        contains('Reload 0 failed', $shop->hyperf('queue:reload', '-Qtimeout'));
        contains('Replayed 0 jobs', $shop->hyperf('streamfleet:letters', '--job', 'App\Job\SendMail', '--reload'));
        contains('Reload 2 failed', $shop->hyperf('queue:reload'));
        $shop->await('charged amex');
        $shop->await('failed visa', 2);
        eventually(static fn (): bool => redis('XLEN', 'sf:{queue}:dead') === 1, 'the second death');
        contains('Replayed 1 jobs', $shop->hyperf('streamfleet:letters', 'default', '--reload'));
        $shop->await('failed visa', 3);
        eventually(static fn (): bool => redis('XLEN', 'sf:{queue}:dead') === 1, 'the third death');
        $shop->hyperf('queue:flush');
        same(0, redis('XLEN', 'sf:{queue}:dead'));
        contains('not supported', $shop->fails('queue:reload', '-Qreserved'));
        contains('not exist', $shop->fails('queue:flush', '-Qreserved'));
    });
});

test('jobs_that_wait_or_are_delayed_are_flushed', function (): void {
    $shop = new Shop(Shop::STREAMFLEET);
    $shop->whileWorking(static function () use ($shop): void {
        $shop->eval('$driver->push(new App\Job\SendMail("bob"), 600);');
        eventually(static fn (): bool => $shop->eval('echo $driver->info()["delayed"];') === '1', 'the delayed job');
        $shop->eval('$driver->push(new App\Job\Hold("go")); $driver->push(new App\Job\SendMail("ann"));');
        $shop->await('holds');
        $shop->hyperf('queue:flush', '-Qwaiting');
        $shop->hyperf('queue:flush', '-Qdelayed');
        same('{"waiting":0,"delayed":0,"failed":0,"timeout":0}', $shop->eval('echo json_encode($driver->info());'));
        redis('SET', 'go', '1');
        $shop->await('let go');
    });
    same(0, $shop->count('mailed'));
});

test('a_job_that_ends_its_program_is_tried_again_as_often_as_it_says', function (): void {
    $shop = new Shop(Shop::STREAMFLEET);
    $shop->whileWorking(static function () use ($shop): void {
        $shop->eval('$driver->push(new App\Job\Leave()); $driver->push(new App\Job\SendMail("after"));');
        $shop->await('mailed after');
        eventually(static fn (): bool => redis('XLEN', 'sf:{queue}:dead') === 1, 'its end', 60);
        same(2, $shop->count('leaves'));
    });
});

test('a_job_whose_models_cannot_be_loaded_is_tried_again', function (): void {
    $shop = new Shop(Shop::STREAMFLEET);
    $shop->eval('$driver->push(new App\Job\Load());');
    $shop->whileWorking(static fn () => $shop->await('loaded'));
    same(['2', 0], [redis('GET', 'loads'), redis('XLEN', 'sf:{queue}:dead')]);
});

test('what_redis_has_chooses_no_class_and_no_method', function (): void {
    $shop = new Shop(Shop::STREAMFLEET);
    $shop->whileWorking(static function () use ($shop): void {
        $shop->eval('
            $driver->push(new App\Job\Carry(new Vendor\Gadget()));
            $driver->push(new Hyperf\AsyncQueue\AnnotationJob(App\Service\News::class, "erase", []));
            $producer = new Streamfleet\Producer(Hyperf\Context\ApplicationContext::getContainer()->get(Hyperf\Redis\RedisFactory::class)->get("default"), "queue");
            $producer->enqueue("hyperf.job", "no message", encoding: "raw", maxAttempts: 1);
            $producer->enqueue("hyperf.job", serialize(new DateTime()), encoding: "raw", maxAttempts: 1);
            foreach ([new DateTimeImmutable(), Hyperf\AsyncQueue\Result::ACK, new App\Job\SendMail("x"), "O:13:\"Vendor\Gadget\":0:{}", 1.5] as $load) { $driver->push(new App\Job\Carry($load)); }');
        $shop->await('carries', 5);
        eventually(static fn (): bool => redis('XLEN', 'sf:{queue}:dead') === 4, 'four dead letters');
        same([
            "the job has an object of the class Vendor\\Gadget, which jobs may not have: add what its name begins with to streamfleet.classes in config/autoload/async_queue.php",
            "the job calls App\\Service\\News::erase, which has no #[AsyncQueueMessage]; with '*' in streamfleet.classes in config/autoload/async_queue.php, a job may call any method",
            'the payload has no form in which PHP serializes jobs: byte 0',
            "the payload is no message of Hyperf's async queue",
        ], array_column(entries('sf:{queue}:dead'), 'dead_error'));
    });
    same(0, $shop->count('a gadget') + $shop->count('erased'));
    $shop = new Shop(Shop::STREAMFLEET, own: ['classes' => ['App\\', 'vendor\\']]);
    $shop->eval('$driver->push(new App\Job\Carry(new Vendor\Gadget()));');
    $shop->whileWorking(static fn () => $shop->await('carries Vendor\Gadget'));
    $shop = new Shop(Shop::STREAMFLEET, own: ['classes' => ['*']]);
    $shop->eval('$driver->push(new Hyperf\AsyncQueue\AnnotationJob(App\Service\News::class, "erase", []));');
    $shop->whileWorking(static fn () => $shop->await('erased'));
});

test('coroutines_work_on_several_jobs_of_one_program', function (): void {
    $shop = new Shop(Shop::STREAMFLEET, ["'limit' => 10" => "'limit' => 3"], isSwoole: true);
    $shop->whileWorking(static function () use ($shop): void {
        $shop->eval('foreach (["a", "b", "c", "d"] as $key) { $driver->push(new App\Job\Hold($key)); }');
        $shop->await('holds', 3);
        same(1, count($shop->pids('streamfleet:pool')));
        same('3', $shop->eval('echo $driver->info()["waiting"] + 2;'));
        same(3, $shop->count('holds'));
        redis('SET', 'b', '1');
        $shop->await('holds', 4);
        array_map(static fn (string $key) => redis('SET', $key, '1'), ['a', 'c', 'd']);
        $shop->await('let go', 4);
        same('let go b', current(preg_grep('/^let go/', $shop->notes())));
    });
});

test('a_program_is_replaced_after_so_many_jobs_and_tells_lengths', function (): void {
    $shop = new Shop(Shop::STREAMFLEET, ["'max_messages' => 0" => "'max_messages' => 520"], isSwoole: true);
    $shop->whileWorking(static function () use ($shop): void {
        $shop->eval('$driver->push(new App\Job\Hold("go"));');
        $shop->await('holds');
        [$before] = $shop->pids('streamfleet:pool');
        redis('SET', 'go', '1');
        $shop->eval('for ($n = 0; $n < 600; $n++) { $driver->push(new App\Job\SendMail("n$n")); }');
        $shop->await('mailed n', 600);
        eventually(static fn (): bool => $shop->pids('streamfleet:pool') !== [] && !in_array($before, $shop->pids('streamfleet:pool'), true), 'another program');
        same(['QueueLength waiting', 'QueueLength delayed', 'QueueLength failed', 'QueueLength timeout'], array_values(preg_grep('/^QueueLength/', $shop->notes())));
    });
    same(600, $shop->count('mailed n'));
});

foreach (['one_after_the_other' => false, 'in_coroutines' => true] as $how => $isSwoole) {
    test("nothing_is_lost_when_programs_and_workers_are_killed_$how", function () use ($isSwoole): void {
        $shop = (new Shop(Shop::STREAMFLEET, isSwoole: $isSwoole, process: Streamfleet\Hyperf\ConsumerProcess::class))->set('STREAMFLEET__WORKER__LEASE', '2s');
        $shop->eval('for ($n = 0; $n < 300; $n++) { $driver->push((new App\Job\SendMail("n$n"))->setMaxAttempts(9)); }');
        $mailed = static fn (): int => count(array_unique(preg_grep('/^mailed n/', $shop->notes())));
        $shop->whileWorking(static function () use ($shop, $mailed): void {
            foreach ([30, 60, 90, 120, 150] as $kill => $enough) {
                eventually(static fn (): bool => $mailed() >= $enough, "$enough jobs", 60);
                $shop->kill($kill % 2 === 0 ? 'streamfleet:pool' : 'streamfleet worker');
            }
            eventually(static fn (): bool => $mailed() === 300, 'the end of all jobs', 60);
            eventually(static fn (): bool => redis('XLEN', 'sf:{queue}:jobs') === 0, 'an empty queue', 60);
        });
        same(0, redis('XLEN', 'sf:{queue}:dead'));
    });
}

test('a_worker_ends_after_its_jobs_when_the_server_is_killed', function (): void {
    $shop = new Shop(Shop::STREAMFLEET);
    $server = $shop->start();
    $shop->eval('$driver->push(new App\Job\Hold("go"));');
    $shop->await('holds');
    $server->kill();
    eventually(static fn (): bool => str_contains($server->log(), 'the parent has ended'), 'what the worker notices');
    redis('SET', 'go', '1');
    $shop->await('let go');
    eventually(static fn (): bool => $shop->pids('streamfleet') === [], 'the end of the worker', 30);
    same(0, redis('XLEN', 'sf:{queue}:jobs'));
});

test('one_process_watches_a_worker_with_all_programs', function (): void {
    $shop = new Shop(Shop::STREAMFLEET, ["'processes' => 1" => "'processes' => 3"], process: Streamfleet\Hyperf\ConsumerProcess::class);
    $shop->whileWorking(static function () use ($shop): void {
        eventually(static fn (): bool => count($shop->pids('streamfleet:pool')) === 3, 'three programs');
        same(1, count($shop->pids('streamfleet worker')));
    });
    $shop = new Shop(Shop::STREAMFLEET, ["'processes' => 1" => "'processes' => 2"]);
    $shop->whileWorking(static fn () => eventually(static fn (): bool => count($shop->pids('streamfleet worker')) === 2 && count($shop->pids('streamfleet:pool')) === 2, 'two workers'));
});

test('a_command_becomes_a_worker_without_a_server', function (): void {
    $shop = new Shop(Shop::STREAMFLEET, ["'processes' => 1" => "'processes' => 2"], isSwoole: true);
    $shop->eval('$driver->push(new App\Job\SendMail("ann"));');
    $shop->whileWorking(static function () use ($shop): void {
        $shop->await('mailed ann');
        same([1, 2], [count($shop->pids('streamfleet worker')), count($shop->pids('streamfleet:pool'))]);
    }, 'streamfleet:work');
});

test('jobs_that_wait_in_the_lists_of_hyperf_are_moved', function (): void {
    $shop = new Shop('Hyperf\AsyncQueue\Driver\RedisDriver::class');
    $shop->eval('$driver->push(new App\Job\SendMail("ann")); $driver->push(new App\Job\SendMail("bob"), 1); $driver->push(new App\Job\ChargeCard("visa", 1));');
    $lists = redis('DUMP', '{queue}:waiting');
    $delayed = redis('DUMP', '{queue}:delayed');
    $shop = new Shop(Shop::STREAMFLEET);
    redis('RESTORE', '{queue}:waiting', '0', $lists);
    redis('RESTORE', '{queue}:delayed', '0', $delayed);
    preg_match('/^```toml\n(url = .*?)^```$/ms', file_get_contents(dirname(__DIR__) . '/README.md'), $found) === 1 || throw new Exception('README.md shows no import');
    $file = folder() . '/import.toml';
    file_put_contents($file, str_replace('redis://localhost:6379', 'redis://127.0.0.1:' . redisServer(), $found[1]));
    $output = shell_exec('STREAMFLEET__REDIS__URL=redis://127.0.0.1:' . redisServer() . ' ' . escapeshellarg(binary()) . ' import ' . escapeshellarg($file) . ' --yes 2>&1');
    same(0, redis('EXISTS', '{queue}:waiting', '{queue}:delayed'), (string) $output);
    $shop->whileWorking(static function () use ($shop): void {
        array_map($shop->await(...), ['mailed ann', 'mailed bob', 'charged visa']);
    });
});

test('a_loop_of_your_own_pops_acknowledges_and_fails_jobs', function (): void {
    $shop = new Shop(Shop::STREAMFLEET);
    $payload = $shop->eval('echo base64_encode(serialize(new Hyperf\AsyncQueue\JobMessage(new App\Job\SendMail("ann"))));');
    $program = Program::bare($shop->variables() . 'putenv("STREAMFLEET_INBOX=1"); Streamfleet\Inbox::openForFramework();' . Shop::boot() . '
        foreach (["ack", "fail", "ack"] as $answer) {
            do {
                [$data, $message] = $driver->pop();
            } while ($data === false);
            fwrite(STDERR, "{$message->job()->to} {$message->getAttempts()} ");
            fwrite(STDERR, json_encode([$driver->$answer($data), $driver->ack($data)]));
        }');
    $program->send(['type' => 'hello', 'protocol' => 1]);
    same('ready', $program->read()['type'], $program->stderr());
    $job = static fn (string $payload, int $attempt): array => $program->answer('hyperf.job', null, ['encoding' => 'raw', 'payload_base64' => $payload, 'attempt' => $attempt]);
    same('done', $job($payload, 1)['outcome']);
    same(['outcome' => 'fatal', 'error' => 'the application called fail()'], $job($payload, 3));
    same('fatal', $job(base64_encode('x'), 1)['outcome']);
    same('done', $job($payload, 1)['outcome']);
    same([['type' => 'bye'], 0], [$program->read(), $program->exitCode()]);
    contains('ann 0 [true,false]ann 2 [true,false]', $program->stderr());
});

test('what_cannot_work_says_so', function (): void {
    $shop = new Shop(Shop::STREAMFLEET);
    contains('only the worker of a fleet starts this command', $shop->fails('streamfleet:pool'));
    contains('nobody can take one out of the queue', $shop->eval('try { $driver->pop(); } catch (LogicException $error) { echo $error->getMessage(); }'));
    contains('there is no program /no/such', (new Shop(Shop::STREAMFLEET, own: ['program' => '/no/such']))->fails('streamfleet:work'));
    contains('and not that of streamfleet', (new Shop('Hyperf\AsyncQueue\Driver\RedisDriver::class'))->fails('streamfleet:work'));
});
