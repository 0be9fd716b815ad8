<?php

// The worker loop, through the pipes of the pool protocol.

declare(strict_types=1);

require __DIR__ . '/harness.php';

test('ready_names_the_types_and_the_version', function (): void {
    $program = Program::bare('Worker::create()->on("a.b", fn() => 1)->on("7", fn() => 1)->run();');
    $program->write('{"new":[],"inflight":50,"pool":"php","protocol":1,"type":"hello"}' . "\n");
    $ready = $program->read();
    same(['type' => 'ready', 'protocol' => 1, 'types' => ['a.b', '7'], 'inflight' => 1, 'ahead' => 0, 'sdk' => 'streamfleet-php 0.1.0'], $ready);
    $program->closeInput();
    same(['type' => 'bye'], $program->read());
    same(null, $program->read());
    same(0, $program->exitCode());
    same('', $program->stderr());
});

test('another_protocol_is_refused_with_both_versions', function (): void {
    $program = Program::bare('Worker::create()->on("a", fn() => 1)->run();');
    $program->send(['type' => 'hello', 'protocol' => 2]);
    same(1, $program->read()['protocol']);
    same(1, $program->exitCode());
    contains('version 2', $program->stderr());
    contains('version 1', $program->stderr());
});

test('what_a_handler_returns_is_the_outcome', function (): void {
    $program = Program::start('$worker
        ->on("nothing", fn() => null)
        ->on("value", fn(Job $job) => ["got" => $job->payload])
        ->on("false", fn() => false)
        ->on("float", fn() => 1.0)
        ->on("bytes", fn() => "\xff\x00")
        ->on("done", fn() => new Done("Grüße"))
        ->on("retry", fn() => new Retry("busy", after: 1.1))
        ->on("retry.plain", fn() => new Retry("busy"))
        ->on("fatal", fn() => new Fatal("no such user"))
        ->on("unknown", fn() => new Unknown("no answer"))
        ->on("snooze", fn() => new Snooze(60, "closed"))
        ->on("drop", fn() => new Drop("no longer wanted"))
        ->run();');
    $wanted = [
        'nothing' => ['outcome' => 'done'],
        'value' => ['outcome' => 'done', 'result' => ['got' => ['to' => 'ann', 'n' => 1.5]]],
        'false' => ['outcome' => 'done', 'result' => false],
        'float' => ['outcome' => 'done', 'result' => 1.0],
        'bytes' => ['outcome' => 'done', 'result_base64' => base64_encode("\xff\x00")],
        'done' => ['outcome' => 'done', 'result' => 'Grüße'],
        'retry' => ['outcome' => 'retry', 'error' => 'busy', 'delay_ms' => 1100],
        'retry.plain' => ['outcome' => 'retry', 'error' => 'busy'],
        'unknown' => ['outcome' => 'retry', 'unknown' => true, 'error' => 'no answer'],
        'fatal' => ['outcome' => 'fatal', 'error' => 'no such user'],
        'snooze' => ['outcome' => 'snooze', 'delay_ms' => 60000, 'reason' => 'closed'],
        'drop' => ['outcome' => 'drop', 'reason' => 'no longer wanted'],
    ];
    foreach ($wanted as $type => $answer) {
        same($answer, $program->answer($type, ['to' => 'ann', 'n' => 1.5]), $type);
    }
});

test('exceptions_are_retries_and_fatal_errors_are_fatal', function (): void {
    $program = Program::start('class Gone extends FatalError {}
        $worker
        ->on("throws", function () { throw new RuntimeException("no connection \xff"); })
        ->on("type.error", fn(Job $job) => strlen($job->payload))
        ->on("fatal", function () { throw new FatalError("broken"); })
        ->on("gone", function () { throw new Gone("gone"); })
        ->on("unknown", function () { throw new UnknownError("no answer"); })
        ->on("timeout", function () { throw new UnexpectedValueException("timeout"); })
        ->errors([UnexpectedValueException::class => "unknown"])
        ->on("judged", function () { throw new DomainException("later"); })
        ->on("bad.delay", fn() => new Snooze(-1))
        ->onError(fn(Throwable $e) => $e instanceof DomainException ? new Snooze(5, $e->getMessage()) : null)
        ->run();');
    $answer = $program->answer('throws');
    same('retry', $answer['outcome']);
    contains("RuntimeException: no connection \u{fffd} (program.php:", $answer['error']);
    same('retry', $program->answer('type.error', [])['outcome']);
    same(['outcome' => 'fatal', 'error' => 'broken'], $program->answer('fatal'));
    same(['outcome' => 'fatal', 'error' => 'gone'], $program->answer('gone'));
    same(['outcome' => 'retry', 'unknown' => true, 'error' => 'no answer'], $program->answer('unknown'));
    same(true, $program->answer('timeout')['unknown']);
    same(['outcome' => 'snooze', 'delay_ms' => 5000, 'reason' => 'later'], $program->answer('judged'));
    same('retry', $program->answer('bad.delay')['outcome']);
    contains('throws job-1: RuntimeException', $program->stderr());
});

test('the_nearest_class_of_an_exception_decides_what_follows', function (): void {
    $program = Program::start('
        interface Expected {}
        class Gone extends RuntimeException implements Expected {}
        class Busy extends DomainException implements Expected {}
        $worker->errors([LogicException::class => "fatal", "gone" => "drop", Busy::class => 1.5, RuntimeException::class => "retry"])
            ->errors([Expected::class => "drop", FatalError::class => "retry", Error::class => "fatal"])
            ->onError(fn(Throwable $e) => $e->getMessage() === "judged" ? new Snooze(5) : null)
            ->on("throws", fn(Job $job) => throw new $job->payload[0]($job->payload[1]))
            ->on("anonymous", fn() => throw new class("x") extends InvalidArgumentException {})
            ->run();');
    $then = static function (string $class, string $text = 'no') use ($program): array {
        $answer = $program->answer('throws', [$class, $text]);
        return [$answer['outcome'], $answer['delay_ms'] ?? null, isset($answer['classes'])];
    };
    same(['fatal', null, false], $then(InvalidArgumentException::class), 'a class below it');
    same(['drop', null, false], $then('Gone'), 'the case of a name is of no importance');
    same(['retry', 1500, false], $then('Busy'), 'a class before its parents and interfaces');
    same(['retry', null, false], $then(RuntimeException::class));
    same(['retry', null, false], $then('Streamfleet\\FatalError'), 'a rule before the built-in meaning');
    same(['fatal', null, false], $then(TypeError::class));
    same(['snooze', 5000, false], $then('Gone', 'judged'), 'a judge before a rule');
    same('fatal', $program->answer('anonymous')['outcome']);
    contains('Gone: no (program.php:', $program->answer('throws', ['Gone', 'no'])['reason']);
    $once = $program->answer('throws', ['Gone', 'no'], ['step' => 'charge', 'step_kind' => 'once']);
    same(['retry', false], [$once['outcome'], isset($once['classes'])], 'a class does not say that a once step did nothing');
    contains('Gone: no (program.php:', $once['error']);
});

test('a_rule_for_what_is_more_general_does_not_mean_a_fatal_or_an_unknown_error', function (): void {
    $program = Program::start('
        interface Expected {}
        class Silent extends UnknownError implements Expected {}
        class Gone extends FatalError {}
        #[JobType("strict")] final class Strict extends Task { public function __construct(public int $n) {} public function handle(Job $job): mixed { return 1; } }
        $worker->errors([RuntimeException::class => 30, Exception::class => "drop", Throwable::class => "retry", Expected::class => "drop", Gone::class => 5])
            ->on("throws", fn(Job $job) => throw new $job->payload("no"))
            ->task(Strict::class)
            ->run();');
    foreach (['Streamfleet\\UnknownError', 'Silent'] as $class) {
        same(['outcome' => 'retry', 'unknown' => true, 'error' => 'no'], $program->answer('throws', $class));
    }
    same(['outcome' => 'fatal', 'error' => 'no'], $program->answer('throws', 'Streamfleet\\FatalError'));
    same('fatal', $program->answer('strict', ['n' => 'text'])['outcome'], 'a payload that never fits');
    same(5000, $program->answer('throws', 'Gone')['delay_ms'], 'a rule for a class below it');
    same(30000, $program->answer('throws', 'RuntimeException')['delay_ms']);
});

test('what_the_program_leaves_open_is_reported_by_class', function (): void {
    $program = Program::start('eval("namespace App; interface Expected {} class Gone extends \\RuntimeException implements Expected {}");
        $worker->on("throws", fn() => throw new App\\Gone("no"))
            ->on("anonymous", fn() => throw new class("x") extends App\\Gone {})
            ->on("returns", fn() => new Retry("busy"))
            ->run();');
    $classes = $program->answer('throws')['classes'];
    same(['App\\Gone', 'RuntimeException', 'Exception'], array_slice($classes, 0, 3));
    same(true, in_array('App\\Expected', $classes, true) && in_array('Throwable', $classes, true));
    same(['App\\Gone', 'RuntimeException'], array_slice($program->answer('anonymous')['classes'], 0, 2));
    same(['outcome' => 'retry', 'error' => 'busy'], $program->answer('returns'));
});

test('classes_never_make_a_line_too_long', function (): void {
    $name = str_repeat('N', 190);
    $code = "class $name extends Exception {}";
    for ($i = 1; $i <= 40; $i++) {
        $code .= " class {$name}$i extends $name" . ($i === 1 ? '' : $i - 1) . ' {}';
    }
    foreach ([1024 => false, 16384 => true] as $most => $isSent) {
        $program = Program::bare("$code \$worker = Worker::create()->on('throws', fn() => throw new {$name}40(str_repeat(\"\\1\", 100000))); \$worker->run();");
        $program->send(['type' => 'hello', 'protocol' => 1, 'max_line' => $most]);
        $program->read();
        $answer = $program->answer('throws');
        same(['retry', $isSent], [$answer['outcome'], isset($answer['classes'])]);
        same(true, count($answer['classes'] ?? []) <= 32 && strlen(json_encode($answer)) < $most);
    }
});

test('a_rule_that_cannot_be_meant_is_refused', function (): void {
    $program = Program::start('$why = function (array $rules) use ($worker) {
            try { $worker->errors($rules); } catch (Exception $error) { return $error->getMessage(); }
        };
        $worker->on("why", fn() => [$why(["NoSuchError" => "fatal"]), $why(["Exception" => "ignore"]), $why(["Exception" => -1]), $why(["fatal"])])->run();');
    [$class, $word, $time, $list] = $program->answer('why')['result'];
    contains("'NoSuchError'", $class);
    contains("'ignore' for Exception: say 'fatal', 'retry', 'unknown', 'drop'", $word);
    contains('negative', $time);
    contains("no class or interface '0'", $list);
});

test('listeners_hear_what_happens_and_cannot_change_it', function (): void {
    $program = Program::start('
        final class Dispatcher {
            public array $heard = [];
            public function dispatch(object $event): object {
                $this->heard[] = [substr(strrchr($event::class, "\\\\"), 1), $event->job->type, isset($event->error) ? $event->error->getMessage() : null];
                return $event;
            }
        }
        $all = new Dispatcher();
        $order = [];
        $worker->dispatchTo($all)
            ->listen(Event\\Before::class, function (Event\\Before $event) use (&$order) { $order[] = "before"; throw new LogicException("a listener is broken"); })
            ->listen(Event\\After::class, function (Event\\After $event) use (&$order) { $order[] = get_class($event->outcome) . ($event->seconds >= 0 ? "" : "?"); exit(3); })
            ->on("done", function () use (&$order) { $order[] = "done"; })
            ->on("drop", function () { return new Drop("x"); })
            ->on("unknown", fn() => new Unknown("x"))
            ->on("throws", fn() => throw new RuntimeException("no"))
            ->on("fatal", fn() => new Fatal("never"))
            ->on("nan", fn() => NAN)
            ->on("heard", function () use ($all, &$order) { [$heard, $all->heard] = [$all->heard, []]; return new Retry(json_encode([$heard, $order])); })
            ->run();');
    same('retry', $program->answer('throws')['outcome']);
    same('retry', $program->answer('throws', null, ['attempt' => 5])['outcome']);
    same('retry', $program->answer('throws', null, ['attempt' => 5, 'step' => 'mail'])['outcome']);
    same('retry', $program->answer('throws', null, ['step' => 'charge', 'step_kind' => 'once'])['outcome']);
    same('retry', $program->answer('unknown', null, ['step' => 'charge', 'step_kind' => 'once'])['outcome']);
    same('retry', $program->answer('unknown')['outcome']);
    same('fatal', $program->answer('fatal')['outcome']);
    same('fatal', $program->answer('nan')['outcome']);
    [$heard, $order] = json_decode($program->answer('heard')['error'], true);
    same([
        ['Before', 'throws', null], ['Retrying', 'throws', 'no'],
        ['Before', 'throws', null], ['Failed', 'throws', 'no'],
        ['Before', 'throws', null], ['Retrying', 'throws', 'no'],
        ['Before', 'throws', null], ['Failed', 'throws', 'no'],
        ['Before', 'unknown', null], ['Failed', 'unknown', null],
        ['Before', 'unknown', null], ['Retrying', 'unknown', null],
        ['Before', 'fatal', null], ['Failed', 'fatal', null],
        ['Before', 'nan', null], ['Failed', 'nan', null],
        ['Before', 'heard', null],
    ], $heard);
    contains('a listener of Streamfleet\\Event\\Before failed: LogicException: a listener is broken', $program->stderr());
    // The listener ends the program, after the job has its answer.
    same(['outcome' => 'done'], $program->answer('done'));
    same(['type' => 'bye'], $program->read());
    same(0, $program->exitCode());
});

test('an_event_that_does_not_exist_is_refused', function (): void {
    $program = Program::start('$why = function (callable $call) { try { $call(); } catch (InvalidArgumentException $error) { return $error->getMessage(); } };
        $worker->on("why", fn() => [$why(fn() => $worker->listen("Before", fn() => 1)), $why(fn() => $worker->dispatchTo(new stdClass()))])->run();');
    [$event, $dispatcher] = $program->answer('why')['result'];
    contains("no event 'Before'", $event);
    contains('no method dispatch', $dispatcher);
});

test('methods_with_a_job_type_are_handlers', function (): void {
    $program = Program::start('
        class Mails {
            public static int $made = 0;
            public function __construct() { self::$made += 1; }
            #[JobType("mail.send")] public function send(Job $job): mixed { return [$job->type, $job->payload, self::$made]; }
            #[JobType("mail.drop")] public function drop(Job $job): Drop { return new Drop("unwanted"); }
            #[JobType("mail.static")] public static function count(): int { return self::$made; }
            public function other(): void {}
        }
        class More extends Mails { #[JobType("mail.more")] public function more(Job $job): string { return "more"; } }
        class Hidden { #[JobType("mail.hidden")] private function send(Job $job) {} }
        class Limited { #[JobType("mail.limited", delay: 3)] public function send(Job $job) {} }
        $why = function (object|string $object) use ($worker) { try { $worker->register($object); } catch (Exception $error) { return $error->getMessage(); } };
        $wrong = [$why("NoSuchClass"), $why(stdClass::class), $why(new Hidden()), $why(Limited::class)];
        $worker->register(More::class)->on("wrong", fn() => $wrong)->run();');
    [$missing, $none, $hidden, $limited] = $program->answer('wrong')['result'];
    contains("no class 'NoSuchClass'", $missing);
    contains('stdClass has no method with #[JobType', $none);
    contains('Hidden::send', $hidden);
    contains('delay of #[JobType(\'mail.limited\')] have no effect on Limited::send', $limited);
    same(['outcome' => 'done', 'result' => ['mail.send', ['to' => 'ann'], 1]], $program->answer('mail.send', ['to' => 'ann']));
    same(['outcome' => 'drop', 'reason' => 'unwanted'], $program->answer('mail.drop'));
    same(1, $program->answer('mail.static')['result']);
    same('more', $program->answer('mail.more')['result']);
    $program = Program::bare('class Mails { private int $n = 0; #[JobType("a")] public function a(Job $job): int { return ++$this->n; } }
        Worker::create()->register(new Mails())->run();');
    $program->send(['type' => 'hello', 'protocol' => 1]);
    same(['a'], $program->read()['types']);
    same([1, 2], [$program->answer('a')['result'], $program->answer('a')['result']]);
});

test('a_program_says_what_its_types_need', function (): void {
    putenv('STREAMFLEET_DESCRIBE=1');
    try {
        $program = Program::bare('class Mails { #[JobType("mail.send", maxAttempts: 3, timeout: 1.5, tracking: "all", onFailure: "desk.ask")] public function send(Job $job) { echo "noise"; } }
            $worker = Worker::create()->register(Mails::class)->on("7", fn() => 1);
            echo "noise on standard output\n";
            $worker->run();');
        same(['type' => 'handlers', 'protocol' => 1, 'types' => ['mail.send' => ['max_attempts' => 3, 'timeout' => '1500ms', 'tracking' => 'all', 'on_failure' => 'desk.ask'], '7' => []]], $program->read());
        same([null, 0], [$program->read(), $program->exitCode()]);
        contains('noise on standard output', $program->stderr());
    } finally {
        putenv('STREAMFLEET_DESCRIBE');
    }
});

test('a_step_reads_the_results_of_the_steps_before_it', function (): void {
    $program = Program::start('$worker->on("gift", fn(Job $job) => [$job->stepResult("charge"), $job->stepResult("mail"), bin2hex((string) $job->stepResult("bytes"))])->run();');
    $results = ['charge' => ['receipt' => 'R-7', 'cents' => [1, 2.5]], 'bytes' => ['encoding' => 'base64', 'data' => '/w==']];
    same([$results['charge'], null, 'ff'], $program->answer('gift', null, ['step' => 'mail', 'results' => $results])['result']);
    same([null, null, ''], $program->answer('gift')['result']);
});

test('the_streams_of_the_process_stay_open_and_lead_to_standard_error', function (): void {
    if (!extension_loaded('FFI')) {
        throw new Skipped('the extension FFI is missing');
    }
    $program = Program::start('$worker->on("noisy", function () {
            fwrite(STDOUT, "by the constant\n");
            fwrite(fopen("php://stdout", "w"), "by a stream\n");
            fwrite(fopen("php://output", "w"), "by the output\n");
            echo "by echo\n";
            system("echo by a child");
            if (is_file("/usr/share/php/Symfony/Component/Console/autoload.php")) {
                require "/usr/share/php/Symfony/Component/Console/autoload.php";
                (new Symfony\\Component\\Console\\Output\\ConsoleOutput())->writeln("by symfony");
            } else {
                fwrite(STDOUT, "by symfony\n");
            }
            return [is_resource(STDOUT), fread(STDIN, 100), feof(STDIN), trim((string) shell_exec("cat"))];
        })->run();');
    foreach ([1, 2] as $time) {
        same(['outcome' => 'done', 'result' => [true, '', true, '']], $program->answer('noisy'));
    }
    foreach (['the constant', 'a stream', 'the output', 'echo', 'a child', 'symfony'] as $what) {
        same(2, substr_count($program->stderr(), "by $what\n"), $what);
    }
});

test('without_ffi_no_output_reaches_the_worker_either', function (): void {
    $program = Program::start('$worker->on("noisy", function () { echo "echoed\n"; system("echo from a child"); return is_resource(STDOUT); })->run();', '-d', 'ffi.enable=0');
    same(['outcome' => 'done', 'result' => false], $program->answer('noisy'));
    contains('echoed', $program->stderr());
    contains('from a child', $program->stderr());
    contains('docker-php-ext-install ffi', $program->stderr());
});

test('without_pcntl_the_program_says_what_that_means', function (): void {
    $program = Program::start('$worker->on("a", fn() => 1)->run();', '-d', 'disable_functions=pcntl_signal');
    same(1, $program->answer('a')['result']);
    contains('docker-php-ext-install pcntl', $program->stderr());
});

test('stray_output_goes_to_standard_error', function (): void {
    $program = Program::start('$worker->on("noisy", function () {
            echo "echoed\n";
            print "printed\n";
            file_put_contents("php://stdout", "to stdout\n");
            file_put_contents("php://output", "to output\n");
            system("echo from a child");
            $child = proc_open(["echo", "inherited"], [], $pipes);
            proc_close($child);
            $undefined[0];
            trigger_error("a notice", E_USER_NOTICE);
            ob_start();
            echo "left in a buffer\n";
            return "result";
        })->on("bare", function () { while (ob_get_level()) { ob_end_clean(); } echo "after\n"; })->run();');
    same(['outcome' => 'done', 'result' => 'result'], $program->answer('noisy'));
    same(['outcome' => 'done'], $program->answer('bare'));
    foreach (['echoed', 'printed', 'to stdout', 'to output', 'from a child', 'inherited', 'Undefined variable', 'a notice', 'left in a buffer', 'after'] as $text) {
        contains($text, $program->stderr());
    }
});

test('a_handler_cannot_eat_the_next_job_from_standard_input', function (): void {
    $program = Program::start('$worker->on("reads", fn() => [file_get_contents("php://stdin"), trim((string) shell_exec("cat"))])->run();');
    $first = $program->job('reads');
    $second = $program->job('reads');
    same(['outcome' => 'done', 'result' => ['', '']], $program->result($first));
    same(['outcome' => 'done', 'result' => ['', '']], $program->result($second));
});

test('programs_that_a_handler_starts_neither_read_jobs_nor_answer_them', function (): void {
    if (!is_dir('/proc/self/fd')) {
        throw new Skipped('the system has no /proc');
    }
    foreach ([[], ['-d', 'ffi.enable=0']] as $options) {
        $program = Program::start('$worker->on("starts", function (Job $job) {
                $job->log("info", "begun");
                proc_close(proc_open(["sh", "-c", ...$job->payload], [], $pipes));
                return "own";
            })->on("echoes", fn(Job $job) => $job->payload)->run();', ...$options);
        // It finds the pipes by their inodes.
        $script = 'for n in 3 4 5 6 7 8 9; do case $(readlink /proc/$$/fd/$n) in
            "pipe:[$2]") echo "$3" >&$n;;
            "pipe:[$1]") head -c 1 <&$n >/dev/null;;
        esac; done';
        $pipes = array_map(static fn ($pipe): string => (string) fstat($pipe)['ino'], array_slice($program->pipes, 0, 2));
        $first = $program->job('starts', [$script, 'sh', ...$pipes, '{"type":"result","ref":"1","outcome":"done","result":"forged"}']);
        same('begun', $program->read()['message']);
        $second = $program->job('echoes', 'of another job');
        same(['outcome' => 'done', 'result' => 'own'], $program->result($first), implode(' ', $options));
        same(['outcome' => 'done', 'result' => 'of another job'], $program->result($second), implode(' ', $options));
        same(false, str_contains($program->stderr(), 'inherit'));
    }
});

test('a_program_says_if_those_that_it_starts_inherit_the_pipes', function (): void {
    $program = Program::start('$worker->on("a", fn() => 1)->run();', '-d', 'ffi.enable=0', '-d', 'realpath_cache_size=0');
    same(1, $program->answer('a')['result']);
    contains('inherit the pipes to the worker', $program->stderr());
});

test('progress_is_merged_and_its_last_report_arrives', function (): void {
    $program = Program::start('$worker->on("counts", function (Job $job) {
            for ($i = 0; $i <= 10000; $i++) { $job->progress($i / 100, "page $i"); }
        })->on("odd", function (Job $job) { $job->progress(NAN); usleep(110000); $job->progress(1e9); })->run();');
    $program->job('counts');
    $reports = [];
    while (($line = $program->read())['type'] === 'progress') {
        $reports[] = $line;
    }
    same('done', $line['outcome']);
    same(true, count($reports) < 100, 'few reports');
    same(['type' => 'progress', 'ref' => '1', 'percent' => 0.0, 'message' => 'page 0'], $reports[0]);
    same(['type' => 'progress', 'ref' => '1', 'percent' => 100.0, 'message' => 'page 10000'], end($reports));
    $program->job('odd');
    same(0.0, $program->read()['percent']);
    same(100.0, $program->read()['percent']);
});

test('log_lines_have_a_level_and_fields', function (): void {
    $program = Program::start('$worker->on("logs", function (Job $job) {
            $job->log("warning", "slow");
            $job->log("critical", "bad \xff", ["n" => 1]);
            $job->log("info", "odd", ["n" => NAN]);
        })->run();');
    $program->job('logs');
    same(['type' => 'log', 'ref' => '1', 'level' => 'warn', 'message' => 'slow'], $program->read());
    same(['type' => 'log', 'ref' => '1', 'level' => 'error', 'message' => "bad \u{fffd}", 'fields' => ['n' => 1]], $program->read());
    contains('Inf and NaN', $program->read()['fields']['unreadable']);
    same(['outcome' => 'done'], $program->result('1'));
});

test('a_job_has_its_fields', function (): void {
    $program = Program::start('$worker->on("show", fn(Job $job) => [$job->id, $job->type, $job->queue, $job->attempt,
        $job->maxAttempts, $job->createdMs, $job->headers, $job->encoding, $job->step, $job->batch, $job->field("fence"),
        $job->field("nothing"), $job->secondsLeft() > 0.5 && $job->secondsLeft() < 1, $job->cancelled()])->run();');
    $answer = $program->answer('show', null, ['attempt' => 3, 'timeout_ms' => 1000, 'headers' => ['tenant' => '9'], 'batch' => 'b', 'fence' => '17-0', 'later' => [1]]);
    same(['job-1', 'show', 'default', 3, 5, 1700000000000, ['tenant' => '9'], 'json', null, 'b', '17-0', null, true, null], $answer['result']);
});

test('payloads_arrive_unchanged', function (): void {
    $program = Program::start('$worker->on("echo", fn(Job $job) => $job->payload)
        ->on("type", fn(Job $job) => get_debug_type($job->payload["n"] ?? $job->payload))
        ->on("size", fn(Job $job) => [strlen($job->payload), md5($job->payload)])->run();');
    foreach (['text', 7, 0.1, true, [], [1, [2]], ['a' => ['b' => null]], 'Grüße', "line\nbreak \u{2028}"] as $payload) {
        same($payload, $program->answer('echo', $payload)['result'] ?? null);
    }
    $raw = fn (string $json): string => '{"type":"job","ref":"%s","id":"x","job_type":"%s","payload":' . $json . "}\n";
    $program->write(sprintf($raw('{"n":18446744073709551615}'), 'a', 'echo'));
    same(['n' => '18446744073709551615'], $program->result('a')['result']);
    $program->write(sprintf($raw('{"n":9223372036854775807}'), 'b', 'type'));
    same('int', $program->result('b')['result']);
    $program->write(sprintf($raw(str_repeat('[', 3000) . str_repeat(']', 3000)), 'c', 'type'));
    same('array', $program->result('c')['result']);
    $program->write(sprintf($raw(str_repeat('[', 6000) . str_repeat(']', 6000)), 'd', 'type'));
    same('fatal', $program->result('d')['outcome']);
    same('null', $program->answer('type', null, ['payload' => null, 'payload_base64' => ''])['result']);
    $bytes = random_bytes(1000);
    same([1000, md5($bytes)], $program->answer('size', null, ['payload_base64' => base64_encode($bytes), 'encoding' => 'raw'])['result']);
    same([0, md5('')], $program->answer('size', null, ['payload_base64' => '', 'encoding' => 'raw'])['result']);
    $large = str_repeat('0123456789abcdef', 512 * 1024);
    same([8 * 1024 * 1024, md5($large)], $program->answer('size', $large)['result']);
});

test('a_result_that_cannot_be_sent_fails_its_job_and_the_program_lives', function (): void {
    $program = Program::start('ini_set("memory_limit", "-1");
        $worker->on("nan", fn() => NAN)->on("loop", function () { $a = []; $a["a"] = &$a; return $a; })
        ->on("deep", function () { $a = 1; for ($i = 0; $i < 200; $i++) { $a = [$a]; } return $a; })
        ->on("huge", fn() => str_repeat("x", 17 * 1024 * 1024))->on("file", fn() => STDERR)
        ->on("utf8", fn() => ["a\xff"])
        ->on("throws", fn() => new class implements JsonSerializable { function jsonSerialize(): mixed { throw new Exception("not me"); } })
        ->on("fine", fn() => "fine")
        ->run();');
    $wanted = ['nan' => 'NaN', 'loop' => 'ecursion', 'deep' => 'depth', 'huge' => 'max_line is 16777216', 'file' => 'not supported', 'utf8' => 'UTF-8', 'throws' => 'not me'];
    foreach ($wanted as $type => $why) {
        $answer = $program->answer($type);
        same('fatal', $answer['outcome'], $type);
        contains("the handler's result cannot be sent: ", $answer['error']);
        contains($why, $answer['error']);
    }
    same(['outcome' => 'done', 'result' => 'fine'], $program->answer('fine'));
});

test('no_line_is_longer_than_the_worker_accepts', function (): void {
    $program = Program::bare('Worker::create()
        ->on("size", fn(Job $job) => str_repeat("x", $job->payload))
        ->on("error", fn() => throw new Exception(str_repeat("\0", 100_000)))
        ->on("fatal", fn() => new Fatal(str_repeat("é", 100_000)))
        ->on("snooze", fn() => new Snooze(1, str_repeat("\"", 100_000)))
        ->on("logs", function (Job $job) { $job->log("info", str_repeat("\0", 100_000), ["n" => str_repeat("x", 100_000)]); $job->progress(1, str_repeat("\0", 100_000)); })
        ->run();');
    $program->send(['type' => 'hello', 'protocol' => 1, 'inflight' => 1, 'max_line' => 1024]);
    same('ready', $program->read()['type']);
    same('done', $program->answer('size', 900)['outcome']);
    contains("the pool's max_line is 1024", $program->answer('size', 1024)['error']);
    foreach (['error' => 'retry', 'fatal' => 'fatal', 'snooze' => 'snooze', 'logs' => 'done'] as $type => $outcome) {
        $program->job($type);
        do {
            $line = $program->read();
            same(true, strlen(json_encode($line, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES)) <= 1024, $type);
        } while ($line['type'] !== 'result');
        same($outcome, $line['outcome'], $type);
    }
});

test('jobs_ahead_begin_in_order_and_the_last_one_leaves_the_others', function (): void {
    $program = Program::bare('Worker::create()->on("a", fn(Job $job) => $job->payload)->maxJobs(3)->run();');
    $program->send(['type' => 'hello', 'protocol' => 1, 'inflight' => 1, 'ahead' => 8]);
    same(8, $program->read()['ahead']);
    for ($i = 1; $i <= 5; $i++) {
        $program->job('a', $i);
    }
    for ($i = 1; $i <= 3; $i++) {
        same(['outcome' => 'done', 'result' => $i], $program->result((string) $i));
    }
    same(['type' => 'bye'], $program->read(), 'of the others, it says nothing');
    same(null, $program->read());
    same(0, $program->exitCode());
});

test('a_job_that_is_cancelled_before_it_begins_does_not_begin', function (): void {
    $program = Program::bare('Worker::create()
        ->on("first", function (Job $job) { $job->progress(1); while (!file_exists($job->payload)) { usleep(1000); } })
        ->on("next", fn() => "ran")->run();');
    $program->send(['type' => 'hello', 'protocol' => 1, 'inflight' => 1, 'ahead' => 8]);
    same('ready', $program->read()['type']);
    $gate = folder() . '/gate';
    $first = $program->job('first', $gate);
    same('progress', $program->read()['type']);
    [$unwanted, $next] = [$program->job('next'), $program->job('next')];
    $program->send(['type' => 'cancel', 'ref' => $unwanted, 'reason' => 'cancelled']);
    touch($gate);
    same(['outcome' => 'done'], $program->result($first));
    same(['outcome' => 'snooze', 'delay_ms' => 1000, 'begun' => false], $program->result($unwanted));
    same(['outcome' => 'done', 'result' => 'ran'], $program->result($next));
});

test('a_job_that_has_begun_when_it_is_taken_back_goes_on', function (): void {
    $program = Program::bare('Worker::create()->on("a", function (Job $job) {
        $job->progress(1);
        while (($why = $job->cancelled()) === null && !file_exists($job->payload)) { usleep(1000); }
        return [$why];
    })->run();');
    $program->send(['type' => 'hello', 'protocol' => 1, 'inflight' => 1, 'ahead' => 8]);
    same('ready', $program->read()['type']);
    $gate = folder() . '/gate';
    $begun = $program->job('a', $gate);
    same('progress', $program->read()['type']);
    $ahead = $program->job('a', $gate);
    foreach ([$begun, $ahead] as $ref) {
        $program->send(['type' => 'cancel', 'ref' => $ref, 'reason' => 'withdrawn']);
    }
    same(['outcome' => 'snooze', 'delay_ms' => 1000, 'begun' => false], $program->result($ahead));
    touch($gate);
    same(['outcome' => 'done', 'result' => [null]], $program->result($begun));
});

test('a_payload_that_cannot_be_read_fails_no_job_before_it', function (): void {
    $program = Program::bare('Worker::create()->on("a", function (Job $job) { while (!file_exists($job->payload)) { usleep(1000); $job->cancelled(); } return "fine"; })->run();');
    $program->send(['type' => 'hello', 'protocol' => 1, 'inflight' => 1, 'ahead' => 8]);
    same('ready', $program->read()['type']);
    $gate = folder() . '/gate';
    $first = $program->job('a', $gate);
    $program->write('{"type":"job","ref":"2","id":"x","job_type":"a","payload":' . str_repeat('[', 6000) . str_repeat(']', 6000) . "}\n");
    touch($gate);
    same(['outcome' => 'done', 'result' => 'fine'], $program->result($first));
    same('fatal', $program->result('2')['outcome']);
});

test('a_long_job_learns_that_it_is_cancelled', function (): void {
    $program = Program::start('$worker->on("long", function (Job $job) {
            $job->progress(1);
            while (($why = $job->cancelled()) === null) { usleep(1000); }
            return new Drop($why);
        })->on("short", fn() => 1)->run();');
    $ref = $program->job('long');
    same('progress', $program->read()['type']);
    $program->send(['type' => 'cancel', 'ref' => 'another', 'reason' => 'lost']);
    $program->send(['type' => 'news', 'ref' => $ref]);
    $next = $program->job('short');
    $program->send(['type' => 'cancel', 'ref' => $ref, 'reason' => 'timeout']);
    same(['outcome' => 'drop', 'reason' => 'timeout'], $program->result($ref));
    same(['outcome' => 'done', 'result' => 1], $program->result($next));
    $program->send(['type' => 'cancel', 'ref' => $next, 'reason' => 'cancelled']);
    same(['outcome' => 'done', 'result' => 1], $program->answer('short'));
});

test('sigterm_lets_the_job_end_and_returns_the_next', function (): void {
    if (!function_exists('pcntl_signal')) {
        throw new Skipped('PHP has no pcntl');
    }
    $program = Program::start('$worker->on("long", function (Job $job) {
            $job->progress(1);
            for ($end = microtime(true) + 0.3; microtime(true) < $end;) { usleep(1000); }
            return "whole";
        })->run();');
    $ref = $program->job('long');
    same('progress', $program->read()['type']);
    $program->signal(SIGTERM);
    $next = $program->job('long');
    same(['outcome' => 'done', 'result' => 'whole'], $program->result($ref));
    same(['outcome' => 'snooze', 'delay_ms' => 1000, 'begun' => false], $program->result($next));
    same(['type' => 'bye'], $program->read());
    same(0, $program->exitCode());
});

test('sigterm_ends_an_idle_program', function (): void {
    if (!function_exists('pcntl_signal')) {
        throw new Skipped('PHP has no pcntl');
    }
    $program = Program::start('$worker->on("a", fn() => 1)->run();');
    same('done', $program->answer('a')['outcome']);
    $program->signal(SIGTERM);
    same(['type' => 'bye'], $program->read());
    same(0, $program->exitCode());
});

test('signals_do_not_cut_a_long_line', function (): void {
    if (!function_exists('pcntl_signal')) {
        throw new Skipped('PHP has no pcntl');
    }
    $program = Program::start('pcntl_signal(SIGUSR1, fn() => null, false);
        $worker->on("a", function (Job $job) { $job->progress(1); return str_repeat("x", 8 << 20); })->run();');
    $ref = $program->job('a');
    same('progress', $program->read()['type']);
    for ($i = 0; $i < 20; $i++) {
        $program->signal(SIGUSR1);
        usleep(5000);
    }
    $program->signal(SIGTERM);
    same(8 << 20, strlen($program->result($ref)['result']));
    same(['type' => 'bye'], $program->read());
    same(0, $program->exitCode());
});

test('a_program_without_a_worker_ends', function (): void {
    $program = Program::start('$worker->on("a", function () { usleep(50000); return 1; })->run();');
    $program->job('a');
    fclose($program->pipes[1]);
    same(1, $program->exitCode());
    contains('worker is gone', $program->stderr());
});

test('the_end_of_input_lets_the_jobs_end', function (): void {
    $program = Program::start('$worker->on("slow", function () { usleep(100000); return 1; })->run();');
    $ref = $program->job('slow');
    $program->closeInput();
    same(['outcome' => 'done', 'result' => 1], $program->result($ref));
    same(['type' => 'bye'], $program->read());
    same(0, $program->exitCode());
});

test('a_death_is_a_retry_with_its_error', function (): void {
    $deaths = [
        'memory' => ['ini_set("memory_limit", "16M"); str_repeat("x", 1 << 26);', 'Allowed memory size'],
        'memory.slowly' => ['ini_set("memory_limit", "16M"); for (;;) { $a[] = str_repeat("x", 100); }', 'Allowed memory size'],
        'exit' => ['exit(3);', 'the handler called exit()'],
        'time' => ['set_time_limit(1); for (;;) {}', 'Maximum execution time'],
        'class' => ['eval("class Twice extends Countable {}");', 'Twice'],
    ];
    foreach ($deaths as $name => [$code, $error]) {
        $program = Program::start("\$worker->on('dies', function (Job \$job) { echo 1; $code })->run();");
        $answer = $program->answer('dies');
        same(['retry', true], [$answer['outcome'], $answer['unknown'] ?? false], $name);
        contains($error, $answer['error']);
        same(['type' => 'bye'], $program->read(), $name);
        same(null, $program->read());
        same(0, $program->exitCode(), $name);
    }
});

test('the_text_of_exit_is_in_the_error', function (): void {
    $error = function (string $code): string {
        $program = Program::start("\$worker->on('dies', function (Job \$job) { echo \"page 1\\n\"; $code })->run();");
        $error = $program->answer('dies')['error'];
        same(0, $program->exitCode());
        contains('page 1', $program->stderr());
        return $error;
    };
    same('the handler called exit() after it printed: no such table', $error('die("no such table\n");'));
    same('the handler called exit() after it printed: ' . str_repeat('x', 500), $error('exit(str_repeat("x", 5000));'));
    same('the handler called exit() after it printed: page 1', $error('exit(3);'));
});

test('the_text_of_exit_within_a_buffer_is_in_the_error', function (): void {
    foreach (['ob_start();', 'ob_start(); ob_start(fn ($text) => throw new LogicException("a broken callback"), 0);'] as $at => $code) {
        $program = Program::start("\$worker->on('dies', function (Job \$job) { $code die('no such table'); })->run();");
        $error = $program->answer('dies')['error'];
        same('the handler called exit()' . ($at === 0 ? ' after it printed: no such table' : ''), $error);
        same(['type' => 'bye'], $program->read());
    }
});

test('the_error_of_an_anonymous_class_has_the_name_of_its_parent', function (): void {
    $program = Program::start('$worker->on("a", fn() => throw new class("no") extends DomainException {})->run();');
    contains('DomainException@anonymous: no (program.php:', $program->answer('a')['error']);
});

test('a_handler_that_is_a_generator_is_not_done', function (): void {
    $program = Program::start('$worker->on("a", function () { yield 1; })->run();');
    $answer = $program->answer('a');
    same('fatal', $answer['outcome']);
    contains('yield', $answer['error']);
});

test('errors_name_files_from_the_folder_of_the_program', function (): void {
    $program = Program::start('mkdir("src");
        file_put_contents("src/Gift.php", \'<?php function gift() { throw new RuntimeException("no"); } function twice() { require __DIR__ . "/Broken.php"; } \');
        file_put_contents("src/Broken.php", "<?php class Twice extends Countable {}");
        require "src/Gift.php";
        $worker->on("throws", function () { chdir("/"); gift(); })->on("fatal", fn() => twice())->run();');
    same('RuntimeException: no (src/Gift.php:1)', $program->answer('throws')['error']);
    contains('(src/Broken.php:1)', $program->answer('fatal')['error']);
});

test('a_program_without_a_worker_says_so', function (): void {
    $program = Program::bare('Worker::create()->on("a", fn() => 1)->run();');
    $program->closeInput();
    same(null, $program->read());
    same(64, $program->exitCode());
    contains('takes its jobs from a streamfleet worker', $program->stderr());
});

test('a_payload_that_exhausts_the_memory_is_answered', function (): void {
    $program = Program::start('ini_set("memory_limit", "12M"); $worker->on("a", fn(Job $job) => 1)->run();');
    $ref = $program->job('a', array_fill(0, 1 << 20, 1));
    contains('Allowed memory size', $program->result($ref)['error']);
    same(['type' => 'bye'], $program->read());
    same(0, $program->exitCode());
    // If not even the line fits, the program ends without a farewell, so that an attempt is spent.
    $program = Program::start('ini_set("memory_limit", "6M"); $worker->on("a", fn(Job $job) => 1)->run();');
    @$program->write('{"type":"job","ref":"1","job_type":"a","payload":"' . str_repeat('x', 8 << 20) . "\"}\n");
    same(null, $program->read());
    same(255, $program->exitCode());
});

test('a_kept_job_is_not_taken_for_the_next_one', function (): void {
    $program = Program::start('$worker->on("keeps", function (Job $job) use (&$kept) { $kept ??= $job; return $kept->cancelled(); })
        ->on("waits", function (Job $job) use (&$kept) { $job->log("info", "begun"); while ($job->cancelled() === null) { usleep(1000); } return $kept->cancelled(); })->run();');
    same(['outcome' => 'done'], $program->answer('keeps'));
    $ref = $program->job('waits');
    // A job that is cancelled before it begins never begins.
    same('begun', $program->read()['message']);
    $program->send(['type' => 'cancel', 'ref' => $ref, 'reason' => 'lost']);
    same(['outcome' => 'done'], $program->result($ref));
});

test('without_ffi_the_constants_of_the_standard_streams_are_closed', function (): void {
    $program = Program::start('$worker->on("a", fn() => fwrite(STDOUT, "x"))->on("b", fn() => fwrite(STDERR, "y"))->run();', '-d', 'ffi.enable=0');
    same('retry', $program->answer('a')['outcome']);
    same(1, $program->answer('b')['result']);
});

test('a_forked_child_takes_no_lines', function (): void {
    if (!function_exists('pcntl_fork')) {
        throw new Skipped('PHP has no pcntl');
    }
    $program = Program::start('$worker->on("forks", function (Job $job) {
            $job->progress(1);
            $child = pcntl_fork();
            if ($child === 0) {
                for ($end = microtime(true) + 0.3; microtime(true) < $end;) { $job->cancelled(); }
                posix_kill(getmypid(), SIGKILL);
            }
            pcntl_waitpid($child, $status);
            return $job->cancelled();
        })->run();');
    $ref = $program->job('forks');
    same('progress', $program->read()['type']);
    $program->send(['type' => 'cancel', 'ref' => $ref, 'reason' => 'timeout']);
    same(['outcome' => 'done', 'result' => 'timeout'], $program->result($ref));
});

test('a_forked_child_does_not_answer', function (): void {
    if (!function_exists('pcntl_fork')) {
        throw new Skipped('PHP has no pcntl');
    }
    $program = Program::start('$worker->on("forks", function (Job $job) {
            $child = pcntl_fork();
            if ($child === 0) { $job->log("info", "from the child"); exit(0); }
            pcntl_waitpid($child, $status);
            return "parent";
        })->run();');
    same(['outcome' => 'done', 'result' => 'parent'], $program->answer('forks'));
    same(['outcome' => 'done', 'result' => 'parent'], $program->answer('forks'));
});

test('a_forked_child_that_comes_back_takes_no_job', function (): void {
    if (!function_exists('pcntl_fork')) {
        throw new Skipped('PHP has no pcntl');
    }
    $program = Program::start('$worker->on("forks", function (Job $job) use (&$child) {
            $child = pcntl_fork();
            if ($child === 0) { throw new Exception("child"); }
            return "parent";
        })
        ->on("waits", function () use (&$child) { pcntl_waitpid($child, $status); return pcntl_wexitstatus($status); })
        ->reset(fn() => file_put_contents("resets", "x", FILE_APPEND))
        ->on("resets", fn() => file_get_contents("resets"))
        ->run();');
    same('parent', $program->answer('forks')['result']);
    // A child that reads the next job would never end.
    same(1, $program->answer('waits')['result']);
    same('xx', $program->answer('resets')['result']);
});

test('a_program_ends_after_its_max_jobs', function (): void {
    $program = Program::start('$worker->on("a", fn() => 1)->maxJobs(2)->run();');
    same('done', $program->answer('a')['outcome']);
    $second = $program->job('a');
    $program->job('a');
    same('done', $program->result($second)['outcome']);
    same(['type' => 'bye'], $program->read());
    same(null, $program->read());
    same(0, $program->exitCode());
});

test('resets_run_after_each_job_and_before_the_next', function (): void {
    $program = Program::start('$log = [];
        $worker->on("a", function () use (&$log) { $log[] = "job"; return $log; })
            ->on("b", function () { throw new Exception("no"); })
            ->reset(function (Job $job) use (&$log) { $log[] = "reset after {$job->type}"; })->run();');
    same(['job'], $program->answer('a')['result']);
    same('retry', $program->answer('b')['outcome']);
    same(['job', 'reset after a', 'reset after b', 'job'], $program->answer('a')['result']);
});

test('a_failed_reset_ends_the_program_and_keeps_the_outcome', function (): void {
    foreach (['throw new Exception("dirty");', 'exit(1);'] as $code) {
        $program = Program::start("\$worker->on('a', fn() => 'whole')->reset(function () { $code })->run();");
        same(['outcome' => 'done', 'result' => 'whole'], $program->answer('a'));
        same(['type' => 'bye'], $program->read());
        same(0, $program->exitCode());
    }
});

test('middleware_surrounds_the_handler_in_its_order', function (): void {
    $program = Program::start('$worker
        ->use(fn(Job $job, callable $next) => ["outer", $next($job)])
        ->use(fn(Job $job, callable $next) => $job->payload === "stop" ? new Drop("stopped") : ["inner", $next($job)])
        ->use(function (Job $job, callable $next) { try { return $next($job); } catch (LogicException) { return "caught"; } })
        ->on("a", function (Job $job) { if ($job->payload === "throw") { throw new LogicException(); } return 1; })->run();');
    same(['outer', ['inner', 1]], $program->answer('a')['result']);
    same(['outer', ['inner', 'caught']], $program->answer('a', 'throw')['result']);
    // What the outer function returns counts, and it has put the outcome into a list.
    same('done', $program->answer('a', 'stop')['outcome']);
});

test('handlers_may_be_classes_from_a_container', function (): void {
    $program = Program::bare('class Greeter { function __construct(private string $word) {} function handle(Job $job) { return $this->word; } }
        class Plain { private int $calls = 0; function __invoke(Job $job) { return ++$this->calls; } }
        $container = new class { function get(string $class) { return $class === "Greeter" ? new Greeter("hello") : new $class(); } };
        Worker::create($container)->on("greet", Greeter::class)->on("plain", Plain::class)->run();');
    $program->send(['type' => 'hello', 'protocol' => 1]);
    $program->read();
    same('hello', $program->answer('greet')['result']);
    same([1, 2], [$program->answer('plain')['result'], $program->answer('plain')['result']]);
});

test('tasks_are_revived_from_their_payload', function (): void {
    $program = Program::start('enum Size: string { case Small = "s"; }
        #[JobType("mail.send", maxAttempts: 4)]
        final class SendMail extends Task {
            public function __construct(public readonly string $to, public ?Size $size = null, public int $copies = 1,
                public ?DateTimeImmutable $at = null, public float $price = 0, private string $secret = "s") { $this->secret = "constructed"; }
            public function handle(Job $job): mixed {
                return [$this->to, $this->size?->name, $this->copies, $this->at?->format("c"), $this->price];
            }
        }
        $worker->task(SendMail::class)->run();');
    same(['ann', 'Small', 2, '2026-12-01T10:00:00+01:00', 3.0], $program->answer('mail.send', ['to' => 'ann', 'size' => 's', 'copies' => 2, 'at' => '2026-12-01T10:00:00+01:00', 'price' => 3, 'unknown' => 1])['result']);
    same(['ann', null, 1, null, 0.0], $program->answer('mail.send', ['to' => 'ann'])['result']);
    foreach ([[], ['to' => 7], ['to' => null], ['to' => 'a', 'size' => 'xxl'], ['to' => 'a', 'copies' => '12'], ['to' => 'a', 'at' => 'soon'], 'text'] as $payload) {
        same('fatal', $program->answer('mail.send', $payload)['outcome'], json_encode($payload));
    }
});

test('dates_of_a_task_have_the_class_of_their_property', function (): void {
    $program = Program::start('class Carbon extends DateTime {} class CarbonImmutable extends DateTimeImmutable {}
        #[JobType("dates")]
        final class Dates extends Task {
            public function __construct(public readonly Carbon $carbon, public ?CarbonImmutable $immutable, public DateTime $plain, public DateTimeInterface $any) {}
            public function handle(Job $job): mixed {
                return array_map(fn (DateTimeInterface $date): string => $date::class . $date->format(" c"), array_values(get_object_vars($this)));
            }
        }
        $worker->task(Dates::class)->run();');
    $at = '2026-12-01T10:00:00+01:00';
    $made = static fn (string $class): string => "$class $at";
    same(array_map($made, ['Carbon', 'CarbonImmutable', 'DateTime', 'DateTimeImmutable']), $program->answer('dates', ['carbon' => $at, 'immutable' => $at, 'plain' => $at, 'any' => $at])['result']);
    same('fatal', $program->answer('dates', ['carbon' => 'soon', 'immutable' => null, 'plain' => $at, 'any' => $at])['outcome']);
});

test('mistakes_in_the_program_are_reported_before_it_is_ready', function (): void {
    foreach (['on("Bad Type", fn() => 1)', 'on("a", "no_such_function")', 'on("a", fn() => 1)->on("a", fn() => 2)', 'task(stdClass::class)'] as $mistake) {
        $program = Program::bare('Worker::create()->' . $mistake . '->run();');
        $program->send(['type' => 'hello', 'protocol' => 1]);
        same(null, $program->read(), $mistake);
        same(255, $program->exitCode());
        contains('Uncaught', $program->stderr());
    }
});

test('a_job_of_another_type_is_retried_elsewhere', function (): void {
    $program = Program::start('$worker->on("a", fn() => 1)->run();');
    same(['outcome' => 'retry', 'error' => "this program has no handler for 'b'"], $program->answer('b'));
});
