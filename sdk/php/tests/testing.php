<?php

// Fakes, handlers that run inline, the trace context, and several jobs at once.

declare(strict_types=1);

use Streamfleet\{Drop, Fatal, FatalError, Handlers, InvalidSubmission, Job, JobFailed, JobType, Producer, Retry, Snooze, Submission, Submitter, Task, Tasks};
use Streamfleet\Testing\{Fake, Inline};
use function Streamfleet\dispatch;

require __DIR__ . '/harness.php';

#[JobType('mail.welcome', maxAttempts: 4)]
final class Welcome extends Task
{
    public function __construct(public readonly string $to, public readonly int $copies = 1)
    {
    }

    public function handle(Job $job): mixed
    {
        return "{$this->copies} to {$this->to}, attempt {$job->attempt} of {$job->maxAttempts}";
    }
}

test('a_fake_records_what_an_application_submits', function (): void {
    $fake = new Fake();
    $signUp = static function (Submitter $jobs, string $to): void {
        $jobs->enqueue('mail.send', ['to' => $to, 'with' => ['language' => 'de', 'parts' => [1, 2]]], delay: 60);
        $jobs->dispatch(new Welcome($to));
    };
    $fake->assertNothingEnqueued();
    $signUp($fake, 'ann');
    $fake->assertEnqueued('mail.send', ['to' => 'ann'], 1);
    $fake->assertEnqueued('mail.send', ['with' => ['language' => 'de']]);
    $fake->assertEnqueued('mail.send', static fn (Submission $job): bool => $job->fields()['delay_ms'] === '60000');
    $fake->assertEnqueued('mail.welcome');
    $fake->assertNotEnqueued('mail.send', ['to' => 'bob']);
    $error = thrown(AssertionError::class, static fn () => $fake->assertEnqueued('mail.send', ['to' => 'bob']));
    same("wanted at least one job 'mail.send' with {\"to\":\"bob\"}, found 0. Submitted:\n  mail.send " . array_values($fake->jobs())[0]->bytes . "\n  mail.welcome {\"to\":\"ann\",\"copies\":1}", $error->getMessage());
    thrown(AssertionError::class, static fn () => $fake->assertEnqueued('mail.send', times: 2));
    thrown(AssertionError::class, static fn () => $fake->assertEnqueued('mail.send', ['with' => ['parts' => [1]]]));
    thrown(AssertionError::class, static fn () => $fake->assertNotEnqueued('mail.send'));
    thrown(AssertionError::class, static fn () => $fake->assertNothingEnqueued());
    thrown(InvalidSubmission::class, static fn () => $fake->enqueue('Mail Send'));
});

test('a_fake_accepts_an_id_once_and_serves_dispatch', function (): void {
    $fake = new Fake();
    same(['a', 'a', 1], [$fake->enqueue('x', 1, id: 'a'), $fake->enqueue('x', 2, id: 'a'), count($fake->jobs())]);
    same(['k' => 'fake-1'], $fake->enqueueMany(['k' => new Welcome('bob')]));
    same(['waiting', null], [$fake->status('fake-1')->state, $fake->wait('fake-1', 0)]);
    same(null, $fake->status('none'));
    Tasks::submitBy($fake);
    dispatch(new Welcome('cid'), delay: 1);
    Welcome::dispatch('dan');
    $fake->assertEnqueued('mail.welcome', times: 3);
});

/** The handlers of an application, for its pool and for its tests. */
function handlers(Handlers $handlers): Handlers
{
    return $handlers
        ->use(static function (Job $job, callable $next): mixed { return ['tenant' => $job->headers['tenant'] ?? null, 'is' => $next($job)]; })
        ->on('charge', static function (Job $job): mixed {
            $job->progress(50, 'half');
            $job->log('info', 'paid', ['n' => 1]);
            return "paid {$job->payload['amount']}";
        })
        ->errors([DomainException::class => 'fatal']);
}

test('an_inline_job_runs_its_handler_and_shows_its_outcome', function (): void {
    $jobs = handlers(new Inline());
    $id = $jobs->enqueue('charge', ['amount' => 5], headers: ['tenant' => 9]);
    $trial = $jobs->trial($id);
    same([['tenant' => '9', 'is' => 'paid 5'], 'done', null], [$trial->result(), $trial->state(), $trial->error()]);
    same([[50.0, 'half'], ['paid']], [[$trial->reports('progress')[0]['percent'], $trial->reports('progress')[0]['message']], array_column($trial->reports('log'), 'message')]);
    same(['tenant' => '9', 'is' => 'paid 5'], $jobs->result($id));
    $jobs->assertEnqueued('charge', ['amount' => 5], 1);
    $jobs->enqueue('charge', ['amount' => 5], id: 'own');
    $jobs->enqueue('charge', ['amount' => 6], id: 'own');
    same('paid 5', $jobs->result('own')['is']);
});

test('an_inline_job_fails_as_in_a_pool', function (): void {
    $jobs = (new Inline())
        ->on('retry', static fn () => throw new RuntimeException('busy'))
        ->on('rule', static fn () => throw new DomainException('no'))
        ->on('fatal', static fn () => throw new FatalError('no such user'))
        ->on('snooze', static fn () => new Snooze(60, 'closed'))
        ->on('drop', static fn () => new Drop('not wanted'))
        ->on('nan', static fn () => NAN)
        ->on('bytes', static fn (Job $job) => strrev($job->payload))
        ->on('step', static fn (Job $job) => [$job->step, $job->stepResult('charge'), $job->cancelled(), $job->secondsLeft()])
        ->errors([DomainException::class => 'fatal'])
        ->task(Welcome::class);
    $state = static fn (string $type, mixed ...$options): string => $jobs->trial($jobs->enqueue($type, ...$options))->state();
    same(['dead', 'retrying', 'dead', 'dead', 'scheduled', 'cancelled', 'dead', 'dead'], [$state('retry'), $state('retry', maxAttempts: 2), $state('rule'), $state('fatal'), $state('snooze'), $state('drop'), $state('nan'), $state('missing')]);
    $trial = $jobs->run(new Submission('retry'));
    same([RuntimeException::class, Retry::class], [$trial->thrown::class, $trial->outcome::class]);
    contains('testing.php:88)', $trial->error());
    contains('no such user', thrown(JobFailed::class, static fn () => $jobs->result($jobs->enqueue('fatal')))->getMessage());
    same("\x00\xff", $jobs->run(new Submission('bytes', "\xff\x00", encoding: 'raw'))->result());
    same(['mail', ['receipt' => 7], 'timeout', 2.0], array_map(static fn (mixed $value): mixed => is_float($value) ? round($value) : $value, $jobs->run(new Submission('step', timeout: 2), ['step' => 'mail', 'results' => ['charge' => ['receipt' => 7]], 'cancelled' => 'timeout'])->outcome->result));
    same('1 to ann, attempt 2 of 4', $jobs->run(Tasks::submission(new Welcome('ann'), []), ['attempt' => 2])->result());
    thrown(OutOfBoundsException::class, static fn () => $jobs->trial('none'));
});

test('without_open_telemetry_no_job_has_a_context', function (): void {
    same(['type' => 'a'], (new Submission('a'))->fields());
});

const PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

test('the_trace_context_travels_with_the_job', function (): void {
    require_once __DIR__ . '/opentelemetry.php';
    $scope = (new OpenTelemetry\Context\Context(['traceparent' => PARENT, 'tracestate' => 'shop=1']))->activate();
    same(['type' => 'a', 'traceparent' => PARENT, 'h.tracestate' => 'shop=1'], (new Submission('a'))->fields());
    same(['type' => 'a', 'lane' => 'normal', 'traceparent' => PARENT, 'headers' => ['tracestate' => 'shop=1']], json_decode((new Submission('a'))->line(), true));
    same('own', (new Submission('a', headers: ['tracestate' => 'own']))->fields()['h.tracestate']);
    same(['type' => 'a', 'traceparent' => 'mine'], (new Submission('a', traceparent: 'mine'))->fields());
    $submission = new Submission('a');
    $scope->detach();
    $seen = null;
    $jobs = (new Inline())->on('a', static function () use (&$seen): void {
        $seen = (new Submission('b'))->fields();
        throw new RuntimeException('no');
    });
    $jobs->run($submission);
    same(['type' => 'b', 'traceparent' => PARENT, 'h.tracestate' => 'shop=1'], $seen);
    same(null, OpenTelemetry\Context\Context::$current);
    $jobs->run(new Submission('a', traceparent: PARENT));
    same(['type' => 'b', 'traceparent' => PARENT], $seen);
});

test('a_tracestate_that_breaks_the_standard_is_left_out', function (): void {
    $members = implode(',', array_map(static fn (int $nth): string => "k$nth=1", range(1, 32)));
    $long = 'a=' . str_repeat('x', 250) . ',b=' . str_repeat('y', 250) . ',c=';
    foreach (['a=1', 'a=1 , ,b=2', $members, "{$long}12"] as $good) {
        same($good, Streamfleet\Trace::state($good));
    }
    foreach ([null, '', ',', 'a', 'a=', 'A=1', 'a=1,a=2', 'a=b=c', 'a=ü', "a=1\r\nx: y", "a=1\n", "$members,k=1", "{$long}123456789"] as $bad) {
        same(null, Streamfleet\Trace::state($bad));
    }
});

/** A program that works on several jobs at once, in fibers. */
function several(string $code, int $inflight = 3): Program
{
    $program = Program::bare('$worker = Worker::create()->concurrency(3, new Streamfleet\Runtime\Fibers());' . "\n$code\n\$worker->run();");
    $program->send(['type' => 'hello', 'protocol' => 1, 'streamfleet' => '0.0.0', 'pool' => 'php', 'inflight' => $inflight, 'ahead' => 8]);
    $ready = $program->read();
    same([3, 0], [$ready['inflight'], $ready['ahead']]);
    return $program;
}

test('jobs_in_fibers_run_at_once_and_end_in_their_own_order', function (): void {
    $program = several('$open = [];
        $worker->on("wait", function (Job $job) use (&$open) { while (!isset($open[$job->payload])) { Fiber::suspend(); } return $job->payload; })
            ->on("open", function (Job $job) use (&$open) { $open[$job->payload] = true; return "opened"; });');
    $first = $program->job('wait', 'a');
    $second = $program->job('wait', 'b');
    same('opened', $program->answer('open', 'b')['result']);
    same('b', $program->result($second)['result']);
    same('opened', $program->answer('open', 'a')['result']);
    same('a', $program->result($first)['result']);
    $program->closeInput();
    same([['type' => 'bye'], null, 0, ''], [$program->read(), $program->read(), $program->exitCode(), $program->stderr()]);
});

test('jobs_in_fibers_are_cancelled_and_finished_before_the_end', function (): void {
    $program = several('$worker->on("wait", function (Job $job) { while ($job->cancelled() === null) { Fiber::suspend(); } return [$job->payload, $job->cancelled()]; })
        ->on("throw", fn () => throw new RuntimeException("no"));');
    $first = $program->job('wait', 'a');
    $second = $program->job('wait', 'b');
    same('retry', $program->answer('throw')['outcome']);
    $program->send(['type' => 'cancel', 'ref' => $second, 'reason' => 'timeout']);
    same(['b', 'timeout'], $program->result($second)['result']);
    $program->signal(SIGTERM);
    $third = $program->job('wait', 'c');
    same(['outcome' => 'snooze', 'delay_ms' => 1000, 'begun' => false], $program->result($third));
    $program->send(['type' => 'cancel', 'ref' => $first, 'reason' => 'shutdown']);
    same(['a', 'shutdown'], $program->result($first)['result']);
    same([['type' => 'bye'], 0], [$program->read(), $program->exitCode()]);
});

test('a_job_whose_line_another_one_has_read_begins_soon', function (): void {
    $program = several('$worker->on("look", function (Job $job) { while (!is_file($job->payload)) { $job->cancelled(); Fiber::suspend(); } return "seen"; })
        ->on("touch", fn (Job $job) => touch($job->payload));');
    $file = folder() . '/seen';
    $first = $program->job('look', $file);
    $start = hrtime(true);
    for ($n = 0; $n < 20; $n++) {
        same(true, $program->answer('touch', "$file.$n")['result']);
    }
    same(true, hrtime(true) - $start < 10e9);
    touch($file);
    same('seen', $program->result($first)['result']);
});

test('several_jobs_end_the_program_after_so_many', function (): void {
    $program = several('$worker->maxJobs(2)->on("a", fn (Job $job) => $job->payload);');
    same([1, 2], [$program->answer('a', 1)['result'], $program->answer('a', 2)['result']]);
    same([['type' => 'bye'], 0], [$program->read(), $program->exitCode()]);
});

test('jobs_in_coroutines_of_swoole_run_at_once', function (): void {
    if (extension_loaded('swoole')) {
        throw new Skipped('the stand-in of this test cannot be loaded beside Swoole');
    }
    $program = Program::bare('require ' . var_export(__DIR__ . '/swoole.php', true) . ';
        use Swoole\Coroutine;
        $open = [];
        Worker::create()->concurrency(3, new Streamfleet\Runtime\Swoole())
            ->on("wait", function (Job $job) use (&$open) { while (!isset($open[$job->payload])) { Coroutine\System::sleep(0.001); } return [$job->payload, Coroutine::$options]; })
            ->on("open", function (Job $job) use (&$open) { $open[$job->payload] = true; return Coroutine::getCid() > 0; })
            ->run();');
    $program->send(['type' => 'hello', 'protocol' => 1, 'inflight' => 3]);
    same(3, $program->read()['inflight']);
    [$first, $second] = [$program->job('wait', 'a'), $program->job('wait', 'b')];
    same(true, $program->answer('open', 'b')['result']);
    same(['b', ['hook_flags' => 1]], $program->result($second)['result']);
    same(true, $program->answer('open', 'a')['result']);
    same('a', $program->result($first)['result'][0]);
    $program->closeInput();
    same([['type' => 'bye'], 0, ''], [$program->read(), $program->exitCode(), $program->stderr()]);
});

test('jobs_in_coroutines_of_openswoole_run_at_once', function (): void {
    if (extension_loaded('openswoole')) {
        throw new Skipped('the stand-in of this test cannot be loaded beside OpenSwoole');
    }
    // The same stand-in under the names of OpenSwoole.
    $code = strtr(file_get_contents(__DIR__ . '/swoole.php'), ['namespace Swoole' => 'namespace OpenSwoole',
        'use Swoole' => 'use OpenSwoole',
        'public static function set(' => 'public static function run(callable $function): bool { return Coroutine\run($function); } public static function set(']);
    $file = folder() . '/openswoole.php';
    file_put_contents($file, "$code\nnamespace OpenSwoole { final class Runtime { public const HOOK_ALL = 7; } }\n");
    $program = Program::bare('require ' . var_export($file, true) . ';
        use OpenSwoole\Coroutine;
        $open = false;
        Worker::create()->concurrency(2, new Streamfleet\Runtime\Swoole())
            ->on("wait", function () use (&$open) { while (!$open) { Coroutine\System::sleep(0.001); } return Coroutine::$options; })
            ->on("open", function () use (&$open) { return $open = true; })
            ->run();');
    $program->send(['type' => 'hello', 'protocol' => 1, 'inflight' => 2]);
    same(2, $program->read()['inflight']);
    $first = $program->job('wait');
    same(true, $program->answer('open')['result']);
    same(['hook_flags' => 7], $program->result($first)['result']);
    $program->closeInput();
    same([['type' => 'bye'], 0, ''], [$program->read(), $program->exitCode(), $program->stderr()]);
});

test('jobs_in_fibers_of_revolt_run_at_once', function (): void {
    $program = Program::bare('require ' . var_export(__DIR__ . '/revolt.php', true) . ';
        use Revolt\EventLoop;
        $open = [];
        $sleep = function (float $seconds): void { $here = EventLoop::getSuspension(); EventLoop::delay($seconds, fn () => $here->resume()); $here->suspend(); };
        Worker::create()->concurrency(3)
            ->on("wait", function (Job $job) use (&$open, $sleep) { while (!isset($open[$job->payload])) { $sleep(0.001); } return $job->payload; })
            ->on("open", function (Job $job) use (&$open) { $open[$job->payload] = true; return Fiber::getCurrent() !== null; })
            ->on("stop", fn () => posix_kill(getmypid(), SIGTERM))
            ->run();');
    $program->send(['type' => 'hello', 'protocol' => 1, 'inflight' => 3]);
    same(3, $program->read()['inflight']);
    [$first, $second] = [$program->job('wait', 'a'), $program->job('wait', 'b')];
    same(true, $program->answer('open', 'b')['result']);
    same('b', $program->result($second)['result']);
    // One that runs ends before the program does.
    same(true, $program->answer('open', 'a')['result']);
    same('a', $program->result($first)['result']);
    $third = $program->job('wait', 'c');
    same(true, $program->answer('stop')['result']);
    same(true, $program->result($program->job('open', 'c'))['begun'] === false);
    $program->send(['type' => 'cancel', 'ref' => $third, 'reason' => 'shutdown']);
    $program->signal(SIGKILL);
});
