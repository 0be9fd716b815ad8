<?php

// What drivers for frameworks share: a worker loop that asks for jobs, and a command that becomes the worker.

declare(strict_types=1);

use Streamfleet\{Inbox, InvalidSubmission, Launcher};

require __DIR__ . '/harness.php';
require __DIR__ . '/program.php';

/** The loop of a framework, whose programs are those of a pool. Its handlers are functions of the payload. */
const LOOP = '
    $inbox = Inbox::ofFramework();
    $shouldStop = false;
    pcntl_async_signals(true);
    pcntl_signal(SIGTERM, function () use (&$shouldStop) { $shouldStop = true; fwrite(STDERR, "asked to stop\n"); });
    while (!$shouldStop) {
        $job = $inbox->pull(0.2, $isMine ?? null, $inflight ?? 1);
        if ($job !== null) {
            echo "working on {$job["job_type"]}\n";
            $outcome = $handlers[$job["job_type"]]($job["payload"], $job["ref"]);
            if ($outcome !== null) { $inbox->answer($job["ref"], $outcome); }
        }
    }';

function loop(string $code, int $ahead = 0, int $inflight = 1): Program
{
    putenv(Inbox::VARIABLE . '=1');
    try {
        $program = Program::bare("use Streamfleet\\Inbox;\n$code\n" . LOOP);
    } finally {
        putenv(Inbox::VARIABLE);
    }
    $program->send(['type' => 'hello', 'protocol' => 1, 'streamfleet' => '0.0.0', 'pool' => 'app', 'inflight' => $inflight, 'ahead' => $ahead]);
    $ready = $program->read();
    same(['ready', false, $inflight, $inflight > 1 ? 0 : $ahead], [$ready['type'], isset($ready['types']), $ready['inflight'], $ready['ahead']]);
    return $program;
}

test('outside_of_a_pool_there_is_no_inbox', function (): void {
    same(null, Inbox::ofFramework());
    same("seen\n", shell_exec(PHP_BINARY . ' -r ' . escapeshellarg('require ' . var_export(dirname(__DIR__) . '/autoload.php', true) . '; echo Streamfleet\Inbox::ofFramework() === null ? "seen\n" : "taken\n";')));
});

test('a_loop_takes_jobs_and_answers_them', function (): void {
    $program = loop('$handlers = [
        "done" => fn ($payload) => new Done($payload),
        "retry" => fn () => new Retry("busy", 3),
        "nan" => fn () => new Done(NAN),
        "child" => fn () => new Done(trim(shell_exec("echo \$STREAMFLEET_INBOX\$STREAMFLEET_POOL; echo loud"))),
    ];');
    same(['outcome' => 'done', 'result' => ['n' => 1]], $program->answer('done', ['n' => 1]));
    same(['outcome' => 'retry', 'error' => 'busy', 'delay_ms' => 3000], $program->answer('retry'));
    same('fatal', $program->answer('nan')['outcome']);
    // What a job starts does not take it for a program of the pool.
    same('loud', $program->answer('child')['result']);
    $program->closeInput();
    same([['type' => 'bye'], null, 0], [$program->read(), $program->read(), $program->exitCode()]);
    contains("working on done\nworking on retry\n", $program->stderr());
    contains('asked to stop', $program->stderr());
});

test('a_loop_that_is_stopped_gives_back_what_it_has_not_begun', function (): void {
    $program = loop('$handlers = ["wait" => function ($file) { while (!is_file($file)) { usleep(1000); } return new Done(null); }];', 2);
    $file = folder() . '/go';
    [$first, $second] = [$program->job('wait', $file), $program->job('wait', $file)];
    eventually(fn (): bool => str_contains($program->stderr(), 'working on wait'), 'the begin');
    $program->signal(SIGTERM);
    eventually(fn (): bool => str_contains($program->stderr(), 'asked to stop'), 'the signal');
    touch($file);
    same('done', $program->result($first)['outcome']);
    same(['outcome' => 'snooze', 'delay_ms' => 1000, 'begun' => false], $program->result($second));
    same([['type' => 'bye'], 0], [$program->read(), $program->exitCode()]);
});

test('a_job_that_ends_the_program_is_answered_and_the_next_goes_on_elsewhere', function (): void {
    foreach (['exit(3);' => 'the handler called exit()', 'ini_set("memory_limit", "8M"); str_repeat("x", 1 << 26);' => 'Allowed memory size', '(fn (int $n) => $n)(...["x"]);' => 'Uncaught TypeError'] as $code => $why) {
        $program = loop('$handlers = ["end" => function ($file) { while (!is_file($file)) { usleep(1000); } ' . $code . ' }];', 1);
        $file = folder() . '/go';
        [$first, $second] = [$program->job('end', $file, ['attempt' => 3]), $program->job('end', $file)];
        touch($file);
        $answer = $program->result($first);
        same(['retry', 7000], [$answer['outcome'], $answer['delay_ms']]);
        contains($why, $answer['error']);
        same(false, $program->result($second)['begun'] ?? null);
        same([['type' => 'bye'], 0], [$program->read(), $program->exitCode()]);
    }
});

test('a_loop_leaves_jobs_to_another_one_and_takes_several', function (): void {
    $program = loop('$turn = 0; $isMine = function (array $job) use (&$turn) { return $job["queue"] === ["a", "b"][$turn++ % 2]; };
        $handlers = ["done" => fn () => new Done(1)];');
    same([1, 1], [$program->answer('done', null, ['queue' => 'b'])['result'], $program->answer('done', null, ['queue' => 'a'])['result']]);
    // Both run, and the second one answers both.
    $program = loop('$inflight = 2; $refs = []; $handlers = ["together" => function ($payload, $ref) use (&$refs, &$inbox) {
        $refs[] = $ref;
        foreach (count($refs) === 2 ? $refs : [] as $each) { $inbox->answer($each, new Done(count($refs))); }
        return null;
    }];', inflight: 2);
    [$first, $second] = [$program->job('together'), $program->job('together')];
    same([2, 2], [$program->result($first)['result'], $program->result($second)['result']]);
});

test('the_configuration_of_a_launcher_is_valid', function (): void {
    putenv('ODD NAME=1');
    $launcher = new Launcher('redis://127.0.0.1:' . redisServer(), ['default', 'a-b'], binary(), processes: 3, ahead: 16);
    $text = $launcher->configuration(['php', "it's \"odd\" \\ Ä", "two\nlines"], 'laravel.job');
    contains('concurrency = 51', $text);
    contains('"PATH"', $text);
    same(false, str_contains($text, 'ODD NAME'));
    $file = folder() . '/streamfleet.toml';
    file_put_contents($file, $text);
    $check = proc_open([binary(), 'config', 'check', '--without-pools', '--config', $file], [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes, null, environment() + getenv());
    $output = stream_get_contents($pipes[1]);
    same(0, proc_close($check), $output);
    contains('inflight = 5' . "\nahead = 0", (new Launcher('redis://x', ['a'], inflight: 5))->configuration(['x'], 'x'));
    thrown(InvalidSubmission::class, fn () => new Launcher('redis://x', ['No Queue']));
    contains('there is no program no-such-program in PATH', thrown(RuntimeException::class, fn () => (new Launcher('redis://x', ['a'], 'no-such-program'))->program())->getMessage());
});

test('a_command_becomes_the_worker_which_runs_it_in_a_pool', function (): void {
    $binary = binary();
    redis('FLUSHALL');
    $folder = folder();
    file_put_contents("$folder/work.php", '<?php require ' . var_export(dirname(__DIR__) . '/autoload.php', true) . ';
        use Streamfleet\{Done, Inbox, Launcher};
        if (Inbox::ofFramework() === null) {
            (new Launcher("redis://127.0.0.1:' . redisServer() . '", ["default"], ' . var_export($binary, true) . '))->become([...Launcher::ownCommand(), "--in-pool"], "framework.job");
        }
        $handlers = ["framework.job" => fn () => new Done([$argv[1], getenv("SHOP"), ini_get("memory_limit"), getcwd()])];
        ' . LOOP);
    require_once __DIR__ . '/work.php';
    $worker = new Work([PHP_BINARY, '-d', 'memory_limit=77M', 'work.php'], $folder, ['SHOP' => 'open', 'TMPDIR' => $folder] + getenv());
    try {
        $redis = new Redis();
        $redis->connect('127.0.0.1', redisServer());
        $producer = new Streamfleet\Producer($redis);
        same(['--in-pool', 'open', '77M', $folder], $producer->wait($producer->enqueue('framework.job', tracking: 'all'), 30)?->result() ?? $worker->log());
    } finally {
        $worker->stop();
    }
});

test('a_process_watches_the_worker_which_ends_with_it', function (): void {
    $binary = binary();
    require_once __DIR__ . '/work.php';
    redis('FLUSHALL');
    $folder = folder();
    file_put_contents("$folder/work.php", '<?php require ' . var_export(dirname(__DIR__) . '/autoload.php', true) . ';
        use Streamfleet\{Done, Inbox, Launcher};
        if (Inbox::ofFramework() === null) {
            $worker = (new Launcher("redis://127.0.0.1:' . redisServer() . '", ["default"], ' . var_export($binary, true) . '))->start([PHP_BINARY, __FILE__, "--in-pool"], "framework.job");
            pcntl_async_signals(true);
            file_put_contents("pid", getmypid());
            pcntl_signal(SIGUSR1, fn () => $worker->reload());
            pcntl_signal(SIGUSR2, function () use ($worker) { $worker->stop(); $worker->stop(); });
            while ($worker->isRunning()) { usleep(10000); }
            echo "the worker {$worker->pid()} has ended with {$worker->code()}\n";
            exit(0);
        }
        $handlers = ["framework.job" => function ($file) { while ($file && !is_file($file)) { usleep(1000); } return new Done(getmypid()); }];
        ' . LOOP);
    $redis = new Redis();
    $redis->connect('127.0.0.1', redisServer());
    $producer = new Streamfleet\Producer($redis);
    $result = static fn (string $file = ''): mixed => $producer->wait($producer->enqueue('framework.job', $file, tracking: 'all'), 30)?->result();
    foreach (['asked', 'killed'] as $how) {
        $watcher = new Work([PHP_BINARY, 'work.php'], $folder, ['TMPDIR' => $folder] + getenv());
        $first = $result();
        same(true, is_int($first), $watcher->log());
        $parent = (int) file_get_contents("$folder/pid");
        if ($how === 'asked') {
            posix_kill($parent, SIGUSR1);
            same(true, eventually(static fn (): int|false => ($now = $result()) !== $first ? $now : false, 'another program') > 0);
        }
        // The job that runs may end, and runs once.
        $id = $producer->enqueue('framework.job', "$folder/$how", tracking: 'all');
        eventually(static fn (): bool => redis('XPENDING', 'sf:{default}:jobs', 'fleet')[0] === 1, 'the job');
        $how === 'asked' ? posix_kill($parent, SIGUSR2) : $watcher->kill();
        eventually(static fn (): bool => str_contains($watcher->log(), $how === 'asked' ? 'asked to stop: running jobs may end' : 'the parent has ended'), 'what the worker says');
        touch("$folder/$how");
        same('done', $producer->wait($id, 30)?->state);
        if ($how === 'asked') {
            eventually(static fn (): bool => str_contains($watcher->log(), 'has ended with 0'), 'what the process says');
            same(false, str_contains($watcher->log(), 'asked to stop at once'));
            $watcher->kill();
        }
        eventually(static fn (): bool => processesOf($folder, 'worker --config') === [], 'the end of all workers', 30);
    }
});

test('a_death_among_coroutines_blames_no_neighbor', function (): void {
    $program = Program::bare('putenv("STREAMFLEET_INBOX=1");
        Streamfleet\Inbox::openForFramework();
        $inbox = Streamfleet\Inbox::ofFramework();
        $inbox->waitBy(function ($stream, $seconds) { $read = [$stream]; $none = null; return (bool) stream_select($read, $none, $none, 1); });
        $jobs = [];
        while (count($jobs) < 2) { $jobs[] = $inbox->pull(1, inflight: 2); $jobs = array_filter($jobs); }
        exit(3);');
    $program->send(['type' => 'hello', 'protocol' => 1, 'inflight' => 2]);
    same(2, $program->read()['inflight'], $program->stderr());
    $program->job('a');
    $program->job('b');
    same([null, 3], [$program->read(), $program->exitCode()]);
});
