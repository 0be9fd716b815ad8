<?php

// An application on webman/redis-queue, as its documentation describes that, and then on streamfleet, with one line of configuration
// changed. webman and Workerman are stand-ins: see tests/contract.

declare(strict_types=1);

require dirname(__DIR__, 2) . '/php/tests/harness.php';
require dirname(__DIR__, 2) . '/php/tests/program.php';
require __DIR__ . '/shop.php';

test('the_application_does_the_same_with_and_without_a_fleet', function (): void {
    $notes = [];
    foreach ([[], ["'enable' => false" => "'enable' => true"]] as $changes) {
        $shop = new Shop($changes);
        $shop->whileWorking(static function () use ($shop): void {
            $start = microtime(true);
            $shop->run('shop.php');
            $shop->await('mailed later@example.com: hello');
            same(true, microtime(true) - $start > 1.0);
            foreach (['charged visa', 'amex has failed 2 of 2: the bank is busy', 'charged right', 'patient has failed 3 of 2', 'reported november', 'reports wrong'] as $note) {
                $shop->await($note);
            }
        });
        $found = $shop->notes();
        sort($found);
        $notes[] = $found;
    }
    same($notes[0], $notes[1]);
    same([1, 3, 4, 1], array_map(static fn (string $what): int => count(preg_grep("/^charges $what/", $notes[0])), ['stolen', 'amex', 'patient', 'right']));
    same(0, redis('EXISTS', '{redis-queue}-waitingsend-mail', '{redis-queue}-failed'));
});

test('dead_letters_say_why', function (): void {
    $shop = new Shop();
    $shop->whileWorking(static function () use ($shop): void {
        $shop->eval('use Webman\RedisQueue\Client; Client::send("Charge.Card", ["card" => "stolen", "failures" => 0]); Client::connection("other")->send("report", "wrong");');
        eventually(static fn (): bool => redis('XLEN', 'sf:{charge-card}:dead') + redis('XLEN', 'sf:{report}:dead') === 2, 'two dead letters', 30);
        $letter = current(entries('sf:{charge-card}:dead'));
        same(['webman.job', 'Charge.Card', '{"card":"stolen","failures":0}'], [$letter['type'], $letter['h.queue'], $letter['payload']]);
        contains('UnretryableException: never again', $letter['dead_error']);
        contains('RuntimeException: no such month', current(entries('sf:{report}:dead'))['dead_error']);
    });
});

test('a_job_that_ends_its_program_is_tried_as_often_as_it_may_fail', function (): void {
    $shop = new Shop(plugin: ["'max_attempts' => 0" => "'max_attempts' => 1"]);
    $shop->whileWorking(static function () use ($shop): void {
        $shop->eval('Webman\RedisQueue\Client::connection("other")->send("report", "exit");');
        eventually(static fn (): bool => redis('XLEN', 'sf:{report}:dead') === 1, 'its end', 60);
        same(2, $shop->count('reports exit'));
        contains('has ended its program 2 times', current(entries('sf:{report}:dead'))['dead_error']);
    });
});

test('timers_of_consumers_run_after_their_jobs', function (): void {
    $shop = new Shop();
    $shop->eval('Webman\RedisQueue\Client::connection("other")->send("report", "timed");');
    $shop->whileWorking(static fn () => $shop->await('it is time'));
    same(['reports timed', 'reported timed', 'it is time'], $shop->notes());
});

test('nothing_is_lost_when_programs_and_workers_are_killed', function (): void {
    $shop = (new Shop(plugin: ["'max_attempts' => 2" => "'max_attempts' => 9"]))->set('STREAMFLEET__WORKER__LEASE', '2s');
    $shop->eval('for ($n = 0; $n < 300; $n++) { Webman\RedisQueue\Redis::send("send-mail", ["to" => "n$n", "content" => ""]); }');
    $mailed = static fn (): int => count(array_unique(preg_grep('/^mailed n/', $shop->notes())));
    $shop->whileWorking(static function () use ($shop, $mailed): void {
        foreach ([30, 60, 90, 120] as $kill => $enough) {
            eventually(static fn (): bool => $mailed() >= $enough, "$enough jobs", 60);
            // The worker of the connection `default` has the queue of the mails.
            posix_kill(eventually(static fn (): int|false => $kill % 2 === 0 ? current($shop->pids('redis default')) : current(workerOf($shop, 'redis default')), 'a process'), SIGKILL);
        }
        eventually(static fn (): bool => $mailed() === 300, 'the end of all jobs', 60);
        eventually(static fn (): bool => redis('XLEN', 'sf:{send-mail}:jobs') === 0, 'an empty queue', 60);
    });
    same(0, redis('XLEN', 'sf:{send-mail}:dead'));
});

/** @return list<int> the worker that has started programs with this in their command lines */
function workerOf(Shop $shop, string $part): array
{
    $parents = array_map(static fn (int $pid): int => preg_match('/\) \S (\d+) /', (string) @file_get_contents("/proc/$pid/stat"), $found) === 1 ? (int) $found[1] : 0, $shop->pids($part));
    return array_values(array_filter(array_unique($parents)));
}

test('one_process_watches_a_worker_for_each_connection', function (): void {
    $shop = new Shop();
    $shop->whileWorking(static function () use ($shop): void {
        eventually(static fn (): bool => [count($shop->pids('redis default')), count($shop->pids('redis other'))] === [2, 2], 'two programs for each');
        same(2, count($shop->pids('streamfleet worker')));
    });
});

test('a_stop_lets_jobs_end_and_so_does_one_that_is_cut_short', function (): void {
    foreach (['10', '0.5'] as $timeout) {
        $shop = (new Shop())->set('STOP_TIMEOUT', $timeout);
        $server = $shop->start();
        $shop->eval('Webman\RedisQueue\Client::connection("other")->send("report", "long");');
        $shop->await('reports long');
        if ($timeout === '0.5') {
            $server->stop();
            same(0, $shop->count('reported'));
        } else {
            $server->terminate();
            eventually(static fn (): bool => str_contains($server->log(), 'asked to stop'), 'the request');
        }
        redis('SET', 'go', '1');
        $shop->await('reported long');
        eventually(static fn (): bool => $shop->pids('streamfleet') === [], 'the end of the workers', 30);
        same([0, 1], [redis('XLEN', 'sf:{report}:jobs'), $shop->count('reports long')]);
        $server->stop();
    }
});

test('a_reload_replaces_processes_or_programs', function (): void {
    foreach ([true, false] as $isReloadable) {
        $shop = new Shop(plugin: $isReloadable ? [] : ["'count' => 2," => "'count' => 2, 'reloadable' => false,"]);
        $shop->whileWorking(static function () use ($shop, $isReloadable): void {
            $before = eventually(static fn (): array|false => count($shop->pids('redis default')) === 2 && count($shop->pids('streamfleet worker')) === 2 ? [$shop->pids('redis default'), $shop->pids('streamfleet worker')] : false, 'the programs');
            $shop->eval('Webman\RedisQueue\Redis::send("send-mail", 1);');
            $shop->await('mailed 1');
            $shop->reload();
            eventually(static fn (): bool => count($now = $shop->pids('redis default')) === 2 && array_intersect($now, $before[0]) === [], 'other programs', 60);
            same($isReloadable, array_intersect($shop->pids('streamfleet worker'), $before[1]) === []);
            $shop->eval('Webman\RedisQueue\Redis::send("send-mail", 2);');
            $shop->await('mailed 2');
        });
    }
});

test('a_worker_that_is_gone_is_started_again', function (): void {
    $shop = new Shop(["'enable' => false" => "'enable' => true"], ["'count' => 2" => "'count' => 1"]);
    $shop->whileWorking(static function (Work $server) use ($shop): void {
        $before = eventually(static fn (): array|false => workerOf($shop, 'redis default') ?: false, 'the worker');
        posix_kill($before[0], SIGKILL);
        eventually(static fn (): bool => str_contains($server->log(), 'has ended with status 137, and is started again'), 'what its process notices');
        $shop->eval('Webman\RedisQueue\Redis::send("send-mail", 3);');
        $shop->await('mailed 3');
    });
});

test('what_cannot_start_says_so_and_is_tried_again', function (): void {
    $shop = new Shop(["'enable' => false" => "'enable' => true", "'program' => 'streamfleet'" => "'program' => '/no/such'"], ["queue/redis'" => "queue/redis/more'"]);
    $server = $shop->start();
    eventually(static fn (): bool => substr_count($server->log(), 'the streamfleet worker of the connection other cannot start: there is no program /no/such') === 2, 'the second try');
    $server->stop();
    $shop = new Shop(plugin: ["queue/redis'" => "queue/none'"]);
    $server = $shop->start();
    eventually(static fn (): bool => str_contains($server->log(), 'queue/none, which consumer_dir in'), 'what is wrong');
    $server->stop();
});

test('clients_send_what_they_are_given', function (): void {
    $shop = new Shop(plugin: ["'db' => 0" => "'prefix' => 'shop_'"]);
    same('bool(true)', trim($shop->eval('Webman\RedisQueue\Client::send("a", ["x" => 1.5], function ($ok) { var_dump($ok); });')));
    same('{"x":1.5}', current(entries('sf:{shop_a}:jobs'))['payload']);
    same('bool(true)', trim($shop->eval('Webman\RedisQueue\Client::send("a", 7, 600, function ($ok) { var_dump($ok); });')));
    same('600000', array_values(entries('sf:{shop_a}:jobs'))[1]['delay_ms']);
    same('PONG', $shop->eval('echo Webman\RedisQueue\Redis::connection()->ping("PONG");'));
    contains('write a class that implements', $shop->eval('try { Webman\RedisQueue\Client::subscribe("a", "b"); } catch (LogicException $error) { echo $error->getMessage(); }'));
    contains('RedisQueue connection none not found', $shop->eval('try { Webman\RedisQueue\Client::connection("none"); } catch (RuntimeException $error) { echo $error->getMessage(); }'));
});

test('jobs_that_wait_in_the_lists_of_webman_are_moved', function (): void {
    $shop = new Shop([]);
    $shop->eval('use Webman\RedisQueue\Client; Client::send("send-mail", ["to" => "ann", "content" => "hello"]); Client::send("send-mail", ["to" => "bob", "content" => "hello"], 1);');
    [$lists, $delayed] = [redis('DUMP', '{redis-queue}-waitingsend-mail'), redis('DUMP', '{redis-queue}-delayed')];
    $shop = new Shop();
    redis('RESTORE', '{redis-queue}-waitingsend-mail', '0', $lists);
    redis('RESTORE', '{redis-queue}-delayed', '0', $delayed);
    preg_match('/^```toml\n(url = .*?)^```$/ms', file_get_contents(dirname(__DIR__) . '/README.md'), $found) === 1 || throw new Exception('README.md shows no import');
    $file = folder() . '/import.toml';
    file_put_contents($file, str_replace('redis://localhost:6379', 'redis://127.0.0.1:' . redisServer(), $found[1]));
    $output = shell_exec('STREAMFLEET__REDIS__URL=redis://127.0.0.1:' . redisServer() . ' ' . escapeshellarg(binary()) . ' import ' . escapeshellarg($file) . ' --yes 2>&1');
    same(0, redis('EXISTS', '{redis-queue}-waitingsend-mail', '{redis-queue}-delayed'), (string) $output);
    $shop->whileWorking(static fn () => array_map($shop->await(...), ['mailed ann', 'mailed bob']));
});

test('without_enable_nothing_changes', function (): void {
    $shop = new Shop([]);
    same('Contract\Client', $shop->eval('echo Webman\RedisQueue\Client::connection()::class;'));
    same('Streamfleet\Webman\Client', (new Shop())->eval('echo Webman\RedisQueue\Client::connection()::class;'));
});
