<?php

declare(strict_types=1);

namespace Streamfleet;

/**
 * The program of a pool: takes jobs from the streamfleet worker that started it, until the worker has no more of them or asks it
 * to stop.
 */
final class Worker extends Handlers implements Channel
{
    public const VERSION = '0.1.0';
    /** How much of what a job printed last goes into the error of its exit(). */
    private const PRINTED = 500;
    /** How long a program with several jobs waits for the next one before it looks again, in seconds. */
    private const TURN = 0.05;

    private ?int $maxJobs = null;
    /** How many jobs run at once, and what lets them. */
    private int $most = 1;
    private ?Runtime $runtime = null;
    private ?Codecs $codecs = null;
    private bool $hasEnded = false;
    /** The end of what the job that runs printed last. */
    private string $printed = '';
    /** The job that runs, unless several do. */
    private ?string $ref = null;
    /** The answer of the job that runs, as lines, once it is known. */
    private ?string $answer = null;
    /** Memory that is freed if there is none left, so that the failure can be reported. */
    private ?string $reserve = null;

    protected function __construct(private readonly Inbox $inbox, ?\Closure $make)
    {
        parent::__construct($make);
    }

    /**
     * Takes over standard input and output. Call it first, before anything prints: see Pipe::open.
     *
     * @param object|callable|null $container makes handlers that are given as class names: a container with `get`, as in
     *   PSR-11, or a function of the class name. Without it, they are made with `new` and no arguments
     */
    public static function create(object|callable|null $container = null): self
    {
        $make = self::makerOf($container);
        return new self(Inbox::open(), $make);
    }

    /** Ends the program after this many jobs; the worker starts another one. */
    public function maxJobs(int $jobs): static
    {
        $this->maxJobs = max(1, $jobs);
        return $this;
    }

    /** Decodes payloads before handlers, middleware and listeners see them: see docs/codecs.md. */
    public function codecs(Codecs $codecs): static
    {
        $this->codecs = $codecs;
        return $this;
    }

    /**
     * Works on several jobs at once, each in a coroutine of its own, if the pool's `inflight` allows it. Its handlers must let each
     * other go on while they wait, and share nothing that belongs to one job.
     *
     * @param ?Runtime $runtime what runs coroutines: Swoole or OpenSwoole if it is loaded, else Revolt if it is installed, else fibers
     */
    public function concurrency(int $jobs, ?Runtime $runtime = null): static
    {
        $this->most = max(1, $jobs);
        $this->runtime = $runtime ?? match (true) {
            Runtime\Swoole::isLoaded() => new Runtime\Swoole(),
            class_exists(\Revolt\EventLoop::class) => new Runtime\Revolt(),
            default => new Runtime\Fibers(),
        };
        return $this;
    }

    /** Takes jobs until there are no more. After it returns, the program should end. */
    public function run(): void
    {
        if (Inbox::isDescribed()) {
            $this->inbox->send($this->description());
            return;
        }
        $this->noteFolders();
        if (!function_exists('pcntl_signal')) {
            fwrite(STDERR, "PHP has no extension pcntl, so a job that is cut short ends at once, and not within its grace. In an image of Docker: docker-php-ext-install pcntl\n");
        } else {
            pcntl_async_signals(true);
            pcntl_signal(SIGTERM, $this->inbox->stop(...));
        }
        if (!$this->inbox->greet($this->types(), $this->most)) {
            return;
        }
        $this->reserve = str_repeat('.', 256 * 1024);
        register_shutdown_function($this->reportDeath(...));
        if ($this->most > 1 && $this->runtime !== null) {
            $this->inbox->waitBy($this->runtime->wait(...));
            $this->runtime->run(fn () => $this->takeSeveral($this->runtime));
        } elseif (!$this->takeOneByOne()) {
            return;
        }
        $this->hasEnded = true;
        $this->inbox->bye();
    }

    /** @internal Sends lines to the worker. */
    public function send(string $lines): void
    {
        $this->inbox->send($lines);
    }

    /** @internal Why the attempt should end, as far as the worker has said. */
    public function cancelled(string $ref): ?string
    {
        return $this->inbox->cancelled($ref);
    }

    protected function report(string $text): void
    {
        fwrite(STDERR, $text);
    }

    /** False if the end has been told already. */
    private function takeOneByOne(): bool
    {
        $jobs = 0;
        while (!$this->inbox->ended()) {
            // A signal that arrives just before the wait does not end it, so the wait is short.
            $message = $this->inbox->next(1);
            if ($message !== null && !$this->attempt($message, ++$jobs === $this->maxJobs)) {
                return false;
            }
        }
        return true;
    }

    private function takeSeveral(Runtime $runtime): void
    {
        $jobs = 0;
        while (true) {
            // This also gives back what arrives while the program stops.
            if ($this->inbox->ended()) {
                if (!$this->inbox->isBusy()) {
                    return;
                }
                $runtime->pause(0.01);
                continue;
            }
            // A job that asks whether it is cancelled may read the line of another one, so the wait is short.
            $message = $this->inbox->next(self::TURN);
            if ($message === null) {
                continue;
            }
            $runtime->go(fn () => $this->attemptBeside($message));
            if (++$jobs === $this->maxJobs) {
                $this->inbox->stop();
            }
        }
    }

    /**
     * Runs a job while others run.
     *
     * @param array<string, mixed> $line
     */
    private function attemptBeside(array $line): void
    {
        [$line, $refusal] = $this->opened($line);
        $job = Job::of($line, $this);
        $start = hrtime(true);
        [$outcome, $error] = $this->handle($job, $refusal);
        $this->exitIfForked();
        $outcome = $this->inbox->answer($job->ref, $outcome, $job->flush());
        $this->tellEnd($job, $outcome, $error, (hrtime(true) - $start) / 1e9);
        try {
            $this->clear($job);
        } catch (\Throwable $error) {
            fwrite(STDERR, "the program ends, because a reset failed: $error\n");
            $this->inbox->stop();
        }
    }

    /**
     * Runs a job and answers it. False if it was the last one.
     *
     * @param array<string, mixed> $line
     */
    private function attempt(array $line, bool $isLast): bool
    {
        $this->ref = (string) $line['ref'];
        [$line, $refusal] = $this->opened($line);
        $job = Job::of($line, $this);
        $levels = ob_get_level();
        $this->printed = '';
        // It passes everything on at once.
        ob_start($this->notePrinted(...), 1);
        $start = hrtime(true);
        [$outcome, $error] = $this->handle($job, $refusal);
        $this->exitIfForked();
        [$outcome, $answer] = Inbox::answerOf($this->ref, $outcome);
        $this->answer = $job->flush() . $answer;
        // From here on, nothing changes the answer, whatever ends the program.
        $this->tellEnd($job, $outcome, $error, (hrtime(true) - $start) / 1e9);
        while (ob_get_level() > $levels && ob_end_flush()) {
        }
        try {
            $this->clear($job);
        } catch (\Throwable $error) {
            fwrite(STDERR, "the program ends, because a reset failed: $error\n");
            $isLast = true;
        }
        // The job has its answer before the next one can fail. The end is told with the answer, so that no job is sent in between.
        $this->hasEnded = $isLast;
        $answer = $isLast ? $this->answer . Inbox::farewell() : $this->answer;
        $ref = $this->ref;
        $this->ref = $this->answer = null;
        $this->inbox->finish($ref, $answer);
        return !$isLast;
    }

    /**
     * The line of a job with its payload decoded, and what becomes of the job if it cannot be.
     *
     * @param array<string, mixed> $line
     * @return array{array<string, mixed>, ?Outcome}
     */
    private function opened(array $line): array
    {
        if (isset($line['unreadable'])) {
            return [$line, new Fatal("PHP cannot read the payload: {$line['unreadable']}")];
        }
        return isset($line['headers'][Codecs\Header::NAME]) ? Codecs::open($this->codecs, $line) : [$line, null];
    }

    /** A process that a handler has forked, and that has not ended by itself, would go on with the next job. */
    private function exitIfForked(): void
    {
        if (!$this->inbox->isOwn()) {
            exit(1);
        }
    }

    private function notePrinted(string $text): string
    {
        if ($text !== '') {
            $this->printed = substr($text, -self::PRINTED);
        }
        return $text;
    }

    /** Answers the job that ended the program: by a fatal error, by exhausted memory, or by exit(). */
    private function reportDeath(): void
    {
        $this->reserve = null;
        if ($this->hasEnded || !$this->inbox->isOwn()) {
            return;
        }
        $this->hasEnded = true;
        ini_set('memory_limit', '-1');
        // The payload may be what exhausted the memory.
        $this->ref ??= $this->inbox->undecoded();
        if ($this->ref === null) {
            // Without a farewell: a job that arrives now, or was being read, must not be passed on without end.
            return;
        }
        if ($this->answer === null) {
            $last = error_get_last();
            $isFatal = ($last['type'] ?? 0) & (E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR);
            $error = $isFatal ? "{$last['message']} ({$this->place($last['file'], $last['line'])})" : "the handler called exit(){$this->lastWords()}";
            // Nobody knows how far it came.
            [, $this->answer] = Inbox::answerOf($this->ref, new Unknown($error));
        }
        $this->send(($this->answer ?? '') . Inbox::farewell());
        exit(0);
    }

    /** What the job that runs printed last, for its error. */
    private function lastWords(): string
    {
        try {
            // PHP passes on what waits in buffers only after this.
            while (ob_get_level() > 0 && ob_end_flush()) {
            }
        } catch (\Throwable) {
            // The callback of a buffer failed.
        }
        $printed = trim($this->printed);
        return $printed === '' ? '' : " after it printed: $printed";
    }
}
