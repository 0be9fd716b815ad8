<?php

declare(strict_types=1);

namespace Streamfleet;

/**
 * The program of a pool: takes jobs from the streamfleet worker that started it, one after the other, until the worker has
 * no more of them or asks it to stop.
 */
final class Worker
{
    public const VERSION = '0.1.0';
    private const PROTOCOL = 1;
    /** How deep a payload may be nested. */
    private const DEPTH = 4096;
    /** How long a job that arrives while the program stops rests before another program takes it. */
    private const STOPPING_MS = 1000;
    /** Why the worker takes a job back that it believes has not begun. If it has, that is no reason to end it. */
    private const TAKEN_BACK = 'withdrawn';
    private const NO_WORKER = "This program takes its jobs from a streamfleet worker: name it in handler.pool of a type, and start streamfleet worker.\n";
    private const EXIT_USAGE = 64;
    /** How much of what a job printed last goes into the error of its exit(). */
    private const PRINTED = 500;
    /** The most jobs that wait in this program. */
    private const MOST_AHEAD = 1000;

    /** @var array<string, callable|string> type → handler */
    private array $handlers = [];
    /** @var list<callable> the outermost first */
    private array $middleware = [];
    /** @var list<callable> */
    private array $resets = [];
    /** @var list<callable> */
    private array $judges = [];
    private readonly ErrorRules $errors;
    private readonly Listeners $listeners;
    /** @var array<string, \Closure> type → its handler inside the middleware */
    private array $chains = [];
    /** @var list<string|array<string, mixed>> jobs that have not begun, most of them as the lines that they came in */
    private array $inbox = [];
    /** Why the job that runs should end. */
    private ?string $cancel = null;
    private ?int $maxJobs = null;
    private int $pid = 0;
    private bool $isStopping = false;
    private bool $hasEnded = false;
    /** @var list<string> where the program was started, and where it is; errors name files from here */
    private array $folders = [];
    /** The end of what the job that runs printed last. */
    private string $printed = '';
    private ?string $ref = null;
    /** The answer of the job that runs, as lines, once it is known. */
    private ?string $answer = null;
    /** The line that is being decoded. */
    private ?string $undecoded = null;
    /** Memory that is freed if there is none left, so that the failure can be reported. */
    private ?string $reserve = null;

    private function __construct(private readonly Pipe $pipe, private readonly ?\Closure $make)
    {
        $this->errors = new ErrorRules();
        $this->listeners = new Listeners();
    }

    /**
     * Takes over standard input and output. Call it first, before anything prints: see Pipe::open.
     *
     * @param object|callable|null $container makes handlers that are given as class names: a container with `get`, as in
     *   PSR-11, or a function of the class name. Without it, they are made with `new` and no arguments
     */
    public static function create(object|callable|null $container = null): self
    {
        if (defined('STDIN') && is_resource(STDIN) && stream_isatty(STDIN)) {
            fwrite(STDERR, self::NO_WORKER);
            exit(self::EXIT_USAGE);
        }
        $make = match (true) {
            $container === null => null,
            is_callable($container) => $container(...),
            default => $container->get(...),
        };
        return new self(Pipe::open(), $make);
    }

    /**
     * Handles the jobs of a type.
     *
     * @param callable|string $handler called with the Job; what it returns is an Outcome, or else the result of a success.
     *   The name of a class stands for its method `handle` or `__invoke`
     */
    public function on(string $type, callable|string $handler): static
    {
        if (preg_match(Submission::TYPE, $type) !== 1) {
            throw new \InvalidArgumentException("'$type' is not a job type: " . Submission::TYPE);
        }
        if (isset($this->handlers[$type])) {
            throw new \InvalidArgumentException("'$type' has two handlers");
        }
        if (is_string($handler) && !is_callable($handler) && !class_exists($handler)) {
            throw new \InvalidArgumentException("the handler of '$type' is neither a function nor a class: $handler");
        }
        $this->handlers[$type] = $handler;
        return $this;
    }

    /**
     * Handles the jobs of a task class, by its method `handle`.
     *
     * @param class-string<Task> ...$classes
     */
    public function task(string ...$classes): static
    {
        foreach ($classes as $class) {
            $this->on(Tasks::typeOf($class), static fn (Job $job): mixed => Tasks::revive($class, $job->payload)->handle($job));
        }
        return $this;
    }

    /**
     * Handles the jobs of each type that a public method names with #[JobType('…')]. The method gets the Job, as a handler does.
     *
     * @param object|class-string $object the name of a class stands for an object that is made when its first job comes
     */
    public function register(object|string $object): static
    {
        if (is_string($object) && !class_exists($object)) {
            throw new \InvalidArgumentException("register() has no class '$object'");
        }
        $mirror = new \ReflectionClass($object);
        $made = is_string($object) ? null : $object;
        $get = function () use (&$made, $object): object {
            return $made ??= $this->made($object);
        };
        $types = 0;
        foreach ($mirror->getMethods() as $method) {
            $type = Tasks::typeOfMethod($method);
            if ($type !== null) {
                $name = $method->getName();
                $this->on($type, static fn (Job $job): mixed => $get()->$name($job));
                $types += 1;
            }
        }
        if ($types === 0) {
            throw new \InvalidArgumentException("{$mirror->getName()} has no method with #[JobType('…')]");
        }
        return $this;
    }

    /** Adds a function around all handlers: it gets the Job and the next function. The first one is the outermost. */
    public function use(callable $middleware): static
    {
        $this->middleware[] = $middleware;
        return $this;
    }

    /** Adds a function that judges exceptions: it gets the exception and the Job, and returns an Outcome, or null to pass. */
    public function onError(callable $judge): static
    {
        $this->judges[] = $judge;
        return $this;
    }

    /**
     * Says what follows from exceptions, by their classes: `'fatal'` (dead at once), `'retry'`, `'unknown'` (as Unknown),
     * `'drop'` (ends as cancelled; a `once` step fails), or after how many seconds to retry. It counts for subclasses and for classes that implement
     * an interface: the nearest class of the exception that is named decides, parents before interfaces. FatalError and
     * UnknownError keep their meaning unless they or classes below them are named. Rules are asked after onError. What they
     * leave open, the configuration may decide: `[types."…".errors]`.
     *
     * @param array<class-string, string|int|float> $rules class → what follows
     */
    public function errors(array $rules): static
    {
        $this->errors->add($rules);
        return $this;
    }

    /**
     * Adds a function that is told what happens to jobs. It cannot change it: if it throws, standard error says so.
     *
     * @param class-string $event a class of Streamfleet\Event: Before, After, Retrying or Failed
     * @param callable $listener gets the event
     */
    public function listen(string $event, callable $listener): static
    {
        $this->listeners->add($event, $listener);
        return $this;
    }

    /** Passes all events to a dispatcher: one of PSR-14, or another object with a method `dispatch`. */
    public function dispatchTo(object $dispatcher): static
    {
        $this->listeners->forward($dispatcher);
        return $this;
    }

    /** Adds a function that is called after each job, such as to close transactions. If it throws, the program ends. */
    public function reset(callable $reset): static
    {
        $this->resets[] = $reset;
        return $this;
    }

    /** Ends the program after this many jobs; the worker starts another one. */
    public function maxJobs(int $jobs): static
    {
        $this->maxJobs = max(1, $jobs);
        return $this;
    }

    /** Takes jobs until there are no more. After it returns, the program should end. */
    public function run(): void
    {
        $this->pid = getmypid();
        $this->folders = [getcwd() . '/', dirname((string) realpath($_SERVER['SCRIPT_FILENAME'] ?? '')) . '/'];
        if (!function_exists('pcntl_signal')) {
            fwrite(STDERR, "PHP has no extension pcntl, so a job that is cut short ends at once, and not within its grace. In an image of Docker: docker-php-ext-install pcntl\n");
        } else {
            pcntl_async_signals(true);
            pcntl_signal(SIGTERM, function (): void {
                $this->isStopping = true;
            });
        }
        if (!$this->shakeHands()) {
            return;
        }
        $this->reserve = str_repeat('.', 256 * 1024);
        register_shutdown_function($this->reportDeath(...));
        $jobs = 0;
        while (($message = $this->next()) !== null) {
            if ($this->isStopping) {
                $this->postpone((string) $message['ref']);
                continue;
            }
            $jobs += 1;
            if (!$this->attempt($message, $jobs === $this->maxJobs)) {
                return;
            }
        }
        $this->hasEnded = true;
        $this->send(self::bye());
    }

    /** @internal Sends lines to the worker. */
    public function send(string $lines): void
    {
        // A process that a handler forked has no right to speak for this one.
        if (getmypid() === $this->pid) {
            $this->pipe->write($lines);
        }
    }

    /** @internal Why the attempt should end, as far as the worker has said. */
    public function cancelled(string $ref): ?string
    {
        $this->look();
        // Not for a Job that a handler has kept.
        return $ref === $this->ref ? $this->cancel : null;
    }

    /** Reads what the worker has written, without waiting for more. */
    private function look(): void
    {
        // A process that a handler forked would take the lines away from this one.
        while (getmypid() === $this->pid && ($line = $this->pipe->line(0)) !== null) {
            $this->sort($line);
        }
    }

    /**
     * Keeps a job until it begins, and notes what is cancelled. A job is not decoded before it begins: if that fails, or takes all
     * the memory, the job before it is not to blame.
     */
    private function sort(string $line): void
    {
        $message = self::refOf($line) === null ? $this->read($line) : $line;
        if (is_string($message) || ($message['type'] ?? '') === 'job') {
            $this->inbox[] = $message;
        } elseif (($message['type'] ?? '') === 'cancel' && is_string($message['ref'] ?? null)) {
            $this->cancel($message['ref'], (string) ($message['reason'] ?? 'cancelled'));
        }
    }

    /** Notes why the job that runs should end. One that has not begun never begins. */
    private function cancel(string $ref, string $reason): void
    {
        if ($ref === $this->ref) {
            if ($reason !== self::TAKEN_BACK) {
                $this->cancel = $reason;
            }
            return;
        }
        foreach ($this->inbox as $at => $job) {
            if ($ref === (is_string($job) ? self::refOf($job) : (string) $job['ref'])) {
                array_splice($this->inbox, $at, 1);
                $this->postpone($ref);
                return;
            }
        }
    }

    /** Gives a job back that has not begun. */
    private function postpone(string $ref): void
    {
        $this->send(Pipe::encode(['type' => 'result', 'ref' => $ref, 'outcome' => 'snooze', 'delay_ms' => self::STOPPING_MS, 'begun' => false]));
    }

    /** Reads `hello` and answers. False if there is nothing to do. */
    private function shakeHands(): bool
    {
        do {
            $line = $this->pipe->line(1);
        } while ($line === null && !$this->pipe->ended() && !$this->isStopping);
        if ($line === null) {
            if (!$this->isStopping) {
                fwrite(STDERR, self::NO_WORKER);
                exit(self::EXIT_USAGE);
            }
            return false;
        }
        $hello = $this->read($line);
        Pipe::limit($hello['max_line'] ?? null);
        $this->send(Pipe::encode([
            'type' => 'ready',
            'protocol' => self::PROTOCOL,
            'types' => array_map(strval(...), array_keys($this->handlers)),
            'inflight' => 1,
            'ahead' => max(0, min(self::MOST_AHEAD, (int) ($hello['ahead'] ?? 0))),
            'sdk' => 'streamfleet-php ' . self::VERSION,
        ]));
        $theirs = $hello['protocol'] ?? null;
        if (($hello['type'] ?? '') !== 'hello' || $theirs !== self::PROTOCOL) {
            fwrite(STDERR, 'the worker speaks version ' . json_encode($theirs) . ' of the pool protocol, and this program version ' . self::PROTOCOL . "\n");
            exit(1);
        }
        return true;
    }

    /**
     * The next job; null if there will be none.
     *
     * @return ?array<string, mixed>
     */
    private function next(): ?array
    {
        if ($this->inbox !== [] || $this->isStopping) {
            // A job that was cancelled while it waited must not begin.
            $this->look();
        }
        while ($this->inbox === []) {
            if ($this->pipe->ended() || $this->isStopping) {
                return null;
            }
            // A signal that arrives just before the wait does not end it, so the wait is short.
            for ($line = $this->pipe->line(1); $line !== null; $line = $this->pipe->buffered()) {
                $this->sort($line);
            }
            if ($this->pipe->hasPart()) {
                $this->look();
            }
        }
        $job = array_shift($this->inbox);
        return is_string($job) ? $this->read($job) : $job;
    }

    /** @return array<string, mixed> a message; if a job cannot be read, one with the key `unreadable` */
    private function read(string $line): array
    {
        try {
            $this->undecoded = $line;
            $message = json_decode($line, true, self::DEPTH, JSON_BIGINT_AS_STRING | JSON_THROW_ON_ERROR);
            return is_array($message) ? $message : [];
        } catch (\JsonException $error) {
            $ref = self::refOf($line);
            if ($ref !== null) {
                return ['type' => 'job', 'ref' => $ref, 'unreadable' => $error->getMessage()];
            }
            fwrite(STDERR, 'a line of the worker is not JSON: ' . $error->getMessage() . "\n");
            return [];
        } finally {
            $this->undecoded = null;
        }
    }

    /** The job of a line that cannot be decoded; null if it is none. */
    private static function refOf(?string $line): ?string
    {
        return preg_match('/\A\{"type":"job","ref":"([^"\\\\]+)"/', substr((string) $line, 0, 100), $found) === 1 ? $found[1] : null;
    }

    /**
     * Runs a job and answers it. False if it was the last one.
     *
     * @param array<string, mixed> $line
     */
    private function attempt(array $line, bool $isLast): bool
    {
        $this->ref = (string) $line['ref'];
        $job = Job::of($line, $this);
        $levels = ob_get_level();
        $this->printed = '';
        // It passes everything on at once.
        ob_start($this->notePrinted(...), 1);
        $error = null;
        $this->listeners->tell(new Event\Before($job));
        $start = hrtime(true);
        try {
            $outcome = match (true) {
                isset($line['unreadable']) => new Fatal("PHP cannot read the payload: {$line['unreadable']}"),
                !isset($this->handlers[$job->type]) => new Retry("this program has no handler for '{$job->type}'"),
                default => $this->outcome(($this->chains[$job->type] ??= $this->chain($job->type))($job)),
            };
        } catch (\Throwable $error) {
            $outcome = $this->judge($error, $job);
        }
        if (getmypid() !== $this->pid) {
            // A process that the handler forked, and that has not ended by itself, would go on with the next job.
            exit(1);
        }
        [$outcome, $answer] = $this->answerOf($outcome);
        $this->answer = $job->flush() . $answer;
        // From here on, nothing changes the answer, whatever ends the program.
        $this->listeners->tell(self::ended($job, $outcome, $error, (hrtime(true) - $start) / 1e9));
        while (ob_get_level() > $levels && ob_end_flush()) {
        }
        try {
            foreach ($this->resets as $reset) {
                $reset($job);
            }
        } catch (\Throwable $error) {
            fwrite(STDERR, "the program ends, because a reset failed: $error\n");
            $isLast = true;
        }
        // The job has its answer before the next one can fail. The end is told with the answer, so that no job is sent in between.
        $this->hasEnded = $isLast;
        $answer = $isLast ? $this->answer . self::bye() : $this->answer;
        $this->ref = $this->answer = $this->cancel = null;
        $this->send($answer);
        return !$isLast;
    }

    private function outcome(mixed $returned): Outcome
    {
        return match (true) {
            $returned instanceof Outcome => $returned,
            // Nothing of its function has run.
            $returned instanceof \Generator => new Fatal('the handler has a yield, so it returned a generator, and did not run'),
            default => new Done($returned),
        };
    }

    private function judge(\Throwable $error, Job $job): Outcome
    {
        try {
            foreach ($this->judges as $judge) {
                $outcome = $judge($error, $job);
                if ($outcome instanceof Outcome) {
                    return $outcome;
                }
            }
        } catch (\Throwable $second) {
            $error = $second;
        }
        fwrite(STDERR, "{$job->type} {$job->id}: $error\n");
        // The name of an anonymous class goes on with the path of its file.
        $text = strstr($error::class . "\0", "\0", true) . ": {$error->getMessage()} ({$this->place($error->getFile(), $error->getLine())})";
        return $this->errors->outcome($error, $text, self::isOnce($job))
            ?? match (true) {
                $error instanceof FatalError => new Fatal($error->getMessage()),
                $error instanceof UnknownError => new Unknown($error->getMessage()),
                default => Retry::undecided($text, ErrorRules::classes($error)),
            };
    }

    /** A line of a file, named from the folder of the program, which may be another one after the next deployment. */
    private function place(string $file, int $line): string
    {
        foreach ($this->folders as $folder) {
            if (str_starts_with($file, $folder)) {
                return substr($file, strlen($folder)) . ":$line";
            }
        }
        return "$file:$line";
    }

    private function notePrinted(string $text): string
    {
        if ($text !== '') {
            $this->printed = substr($text, -self::PRINTED);
        }
        return $text;
    }

    /** The event that tells how an attempt ended. */
    private static function ended(Job $job, Outcome $outcome, ?\Throwable $error, float $seconds): object
    {
        // An `auto` step has limits of its own, which this program does not know. A `once` step is never retried.
        $isLast = $job->step === null ? $job->maxAttempts !== null && $job->attempt >= $job->maxAttempts : self::isOnce($job);
        $isFailure = $outcome instanceof Retry || $outcome instanceof Unknown;
        return match (true) {
            $isFailure && !$isLast => new Event\Retrying($job, $outcome, $error, $seconds),
            $isFailure, $outcome instanceof Fatal => new Event\Failed($job, $outcome, $error, $seconds),
            default => new Event\After($job, $outcome, $seconds),
        };
    }

    /** Whether a step runs that must not run twice. */
    private static function isOnce(Job $job): bool
    {
        return $job->field('step_kind') === 'once';
    }

    /**
     * What is answered, and its line. A result that cannot be sent fails the job: another attempt would return the same.
     *
     * @return array{Outcome, string}
     */
    private function answerOf(Outcome $outcome): array
    {
        $line = ['type' => 'result', 'ref' => $this->ref];
        try {
            return [$outcome, Pipe::encode($line + $outcome->fields(), $outcome instanceof Done)];
        } catch (\Throwable $error) {
            $fatal = new Fatal("the handler's result cannot be sent: {$error->getMessage()}");
            return [$fatal, Pipe::encode($line + $fatal->fields())];
        }
    }

    /** The handler of a type inside all middleware. */
    private function chain(string $type): \Closure
    {
        $handler = $this->handlers[$type];
        if (is_string($handler) && !is_callable($handler)) {
            $object = $this->made($handler);
            $handler = is_callable([$object, 'handle']) ? [$object, 'handle'] : $object;
        }
        $chain = $handler(...);
        foreach (array_reverse($this->middleware) as $middleware) {
            $chain = static fn (Job $job): mixed => $middleware($job, $chain);
        }
        return $chain;
    }

    private function made(string $class): object
    {
        return $this->make === null ? new $class() : ($this->make)($class);
    }

    /** Answers the job that ended the program: by a fatal error, by exhausted memory, or by exit(). */
    private function reportDeath(): void
    {
        $this->reserve = null;
        if ($this->hasEnded || getmypid() !== $this->pid) {
            return;
        }
        $this->hasEnded = true;
        ini_set('memory_limit', '-1');
        // The payload may be what exhausted the memory.
        $this->ref ??= self::refOf($this->undecoded);
        if ($this->ref === null) {
            // Without a farewell: a job that arrives now, or was being read, must not be passed on without end.
            return;
        }
        if ($this->answer === null) {
            $last = error_get_last();
            $isFatal = ($last['type'] ?? 0) & (E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR);
            $error = $isFatal ? "{$last['message']} ({$this->place($last['file'], $last['line'])})" : "the handler called exit(){$this->lastWords()}";
            // Nobody knows how far it came.
            [, $this->answer] = $this->answerOf(new Unknown($error));
        }
        $this->send(($this->answer ?? '') . self::bye());
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

    private static function bye(): string
    {
        return Pipe::encode(['type' => 'bye']);
    }
}
