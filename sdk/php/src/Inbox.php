<?php

declare(strict_types=1);

namespace Streamfleet;

/**
 * The jobs that the streamfleet worker gives to this program: they are taken one after the other, and answered. `Worker` takes
 * them by itself; the worker loop of a framework asks for the next one.
 */
final class Inbox
{
    public const PROTOCOL = 1;
    /** The variable by which a pool says that its command is that of a framework. */
    public const VARIABLE = 'STREAMFLEET_INBOX';
    /** How deep a payload may be nested. */
    public const DEPTH = 4096;
    /** How long a job that arrives while the program stops rests before another program takes it. */
    private const STOPPING_MS = 1000;
    /** Why the worker takes a job back that it believes has not begun. If it has, that is no reason to end it. */
    private const TAKEN_BACK = 'withdrawn';
    private const NO_WORKER = "This program takes its jobs from a streamfleet worker: name it in handler.pool of a type, and start streamfleet worker.\n";
    private const EXIT_USAGE = 64;
    /** The most jobs that wait in this program. */
    private const MOST_AHEAD = 1000;

    /** The longest pause after a job that has ended the program, in seconds. */
    private const LONGEST_REST = 600;

    private static ?self $ofFramework = null;
    private bool $isGreeted = false;
    private int $most = 1;
    /** Whether each of the jobs that run has a coroutine. */
    private bool $areSeveral = false;
    /** The attempts of the jobs that run. @var array<string, int> */
    private array $attempts = [];
    /** @var list<string|array<string, mixed>> jobs that have not begun, most of them as the lines that they came in */
    private array $waiting = [];
    /** @var array<string, ?string> the jobs that run → why they should end */
    private array $running = [];
    private readonly int $pid;
    private bool $isStopping = false;
    /** The line that is being decoded. */
    private ?string $undecoded = null;

    private function __construct(private readonly Pipe $pipe)
    {
        $this->pid = (int) getmypid();
    }

    /** Takes over standard input and output. Call it first, before anything prints: see Pipe::open. */
    public static function open(): self
    {
        if (!self::isDescribed() && defined('STDIN') && is_resource(STDIN) && stream_isatty(STDIN)) {
            fwrite(STDERR, self::NO_WORKER);
            exit(self::EXIT_USAGE);
        }
        return new self(Pipe::open());
    }

    /**
     * @internal Takes over standard input and output for the command of a framework, if a pool has started it. The autoloader calls
     * this, before the framework opens them.
     */
    public static function openForFramework(): void
    {
        if (PHP_SAPI !== 'cli' || getenv(self::VARIABLE) !== '1' || self::$ofFramework !== null) {
            return;
        }
        // What a job starts is no program of the pool.
        foreach ([self::VARIABLE, 'STREAMFLEET_POOL', 'STREAMFLEET_PROTOCOL'] as $name) {
            putenv($name);
            unset($_ENV[$name], $_SERVER[$name]);
        }
        self::$ofFramework = self::open();
        register_shutdown_function(self::$ofFramework->close(...));
    }

    /** The inbox of a command that the pool of a Launcher has started; null elsewhere, such as in that command itself. */
    public static function ofFramework(): ?self
    {
        return self::$ofFramework;
    }

    /**
     * The next job for the worker loop of a framework, or null so that the loop looks after signals and limits. When there will be
     * none, the framework is asked to stop, as by a person.
     *
     * @param ?\Closure(array<string, mixed>): bool $isMine see next
     * @param int $inflight how many jobs the framework works on at once; the first call decides
     * @return ?array<string, mixed> see next
     */
    public function pull(float $seconds, ?\Closure $isMine = null, int $inflight = 1): ?array
    {
        if (!$this->isGreeted) {
            $this->isGreeted = true;
            $this->most = $inflight;
            if (!$this->greet(null, $inflight)) {
                exit(0);
            }
        }
        if (count($this->running) >= $this->most) {
            // Those that are ahead may begin only when one of these has ended.
            return null;
        }
        $job = $this->next($seconds, $isMine);
        if ($job !== null) {
            $this->attempts[(string) $job['ref']] = (int) ($job['attempt'] ?? 1);
        } elseif ($this->ended()) {
            $this->askToStop();
        }
        return $job;
    }

    private function askToStop(): void
    {
        $handler = function_exists('pcntl_signal_get_handler') ? pcntl_signal_get_handler(SIGTERM) : SIG_DFL;
        if (!is_callable($handler) || !function_exists('posix_kill')) {
            exit(0);
        }
        posix_kill((int) getmypid(), SIGTERM);
        pcntl_signal_dispatch();
    }

    /** Answers the job that ends the program, by a fatal error or exit(), and gives the others back. */
    private function close(): void
    {
        if (!$this->isOwn() || !$this->isGreeted) {
            return;
        }
        ini_set('memory_limit', '-1');
        if ($this->areSeveral && count($this->running) > 1) {
            // Nobody knows which job is to blame. Without a farewell, all run again, the last time alone.
            return;
        }
        foreach (array_keys($this->running) as $ref) {
            $last = error_get_last();
            $isFatal = ($last['type'] ?? 0) & (E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR);
            $error = $isFatal ? "{$last['message']} ({$last['file']}:{$last['line']})" : 'the handler called exit()';
            // A job that always ends its program must not start programs without a pause.
            $this->answer((string) $ref, new Retry($error, min(self::LONGEST_REST, 2 ** min($this->attempts[$ref] ?? 1, 10) - 1)));
        }
        $this->stop();
        $this->ended();
        $this->bye();
        // After the functions of the framework for its end: the worker has all answers, so this is no crash.
        register_shutdown_function(static fn () => exit(0));
    }

    /** Whether the program shall only say what its types need. */
    public static function isDescribed(): bool
    {
        return getenv('STREAMFLEET_DESCRIBE') === '1';
    }

    /**
     * Reads the worker's greeting and answers it. False if there is nothing to do.
     *
     * @param ?list<string> $types the types that this program handles; null for whatever the worker has for it
     * @param int $inflight how many jobs it works on at once; above 1 it takes none ahead
     */
    public function greet(?array $types, int $inflight = 1): bool
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
        $ahead = $inflight > 1 ? 0 : max(0, min(self::MOST_AHEAD, (int) ($hello['ahead'] ?? 0)));
        $ready = ['type' => 'ready', 'protocol' => self::PROTOCOL, 'types' => $types, 'inflight' => $inflight, 'ahead' => $ahead, 'sdk' => 'streamfleet-php ' . Worker::VERSION];
        $this->send(Pipe::encode(array_filter($ready, static fn (mixed $value): bool => $value !== null)));
        $theirs = $hello['protocol'] ?? null;
        if (($hello['type'] ?? '') !== 'hello' || $theirs !== self::PROTOCOL) {
            fwrite(STDERR, 'the worker speaks version ' . json_encode($theirs) . ' of the pool protocol, and this program version ' . self::PROTOCOL . "\n");
            exit(1);
        }
        return true;
    }

    /**
     * The next job, which has begun with this; null if there is none within this time, or if a signal arrived.
     *
     * @param ?\Closure(array<string, mixed>): bool $isMine false to leave the job, and all behind it, to another call
     * @return ?array<string, mixed> its line, decoded; with the key `unreadable` if that is not possible
     */
    public function next(float $seconds, ?\Closure $isMine = null): ?array
    {
        if ($this->waiting !== []) {
            // A job that was cancelled while it waited must not begin.
            $this->look();
        }
        if ($this->waiting === [] && !$this->pipe->ended() && !$this->isStopping) {
            for ($line = $this->pipe->line($seconds); $line !== null; $line = $this->pipe->buffered()) {
                $this->sort($line);
            }
            if ($this->pipe->hasPart()) {
                $this->look();
            }
        }
        if ($this->ended() || $this->waiting === []) {
            return null;
        }
        $job = $this->waiting[0] = is_string($this->waiting[0]) ? $this->read($this->waiting[0]) : $this->waiting[0];
        if ($isMine !== null && !$isMine($job)) {
            return null;
        }
        array_shift($this->waiting);
        $this->running[(string) $job['ref']] = null;
        return $job;
    }

    /** True when no further job will come. */
    public function ended(): bool
    {
        if ($this->isStopping) {
            $this->look();
            $this->postponeAll();
        }
        return $this->waiting === [] && ($this->isStopping || $this->pipe->ended());
    }

    /** Takes no further job. Those that have not begun go to other programs. */
    public function stop(): void
    {
        $this->isStopping = true;
    }

    /** How many jobs have begun, and have no answer. */
    public function inflight(): int
    {
        return count($this->running);
    }

    /** Whether a job has no answer, or its answer is still being sent. */
    public function isBusy(): bool
    {
        return $this->running !== [] || $this->pipe->isWriting();
    }

    /**
     * Answers a job after which this program ends, so that no other job is blamed for it.
     */
    public function answerLast(string $ref, Outcome $outcome): void
    {
        $this->finish($ref, Pipe::encode(['type' => 'result', 'ref' => $ref] + $outcome->fields() + ['crash' => true]));
    }

    /**
     * Answers a job.
     *
     * @return Outcome what was answered: a result that cannot be sent fails the job, because another attempt would return the same
     */
    public function answer(string $ref, Outcome $outcome, string $before = ''): Outcome
    {
        [$outcome, $line] = self::answerOf($ref, $outcome);
        $this->finish($ref, $before . $line);
        return $outcome;
    }

    /** @internal Sends the answer of a job, which is a line already. */
    public function finish(string $ref, string $lines): void
    {
        unset($this->running[$ref], $this->attempts[$ref]);
        $this->send($lines);
    }

    /**
     * @internal What is answered, and its line.
     * @return array{Outcome, string}
     */
    public static function answerOf(string $ref, Outcome $outcome): array
    {
        $line = ['type' => 'result', 'ref' => $ref];
        try {
            return [$outcome, Pipe::encode($line + $outcome->fields(), $outcome instanceof Done)];
        } catch (\Throwable $error) {
            $fatal = new Fatal("the handler's result cannot be sent: {$error->getMessage()}");
            return [$fatal, Pipe::encode($line + $fatal->fields())];
        }
    }

    /** Says that the program ends now, and returns all jobs that have not begun. */
    public function bye(): void
    {
        $this->send(self::farewell());
    }

    /** @internal The last line. */
    public static function farewell(): string
    {
        return Pipe::encode(['type' => 'bye']);
    }

    /** Says that the program of a framework ends now, and returns all jobs that have not begun. Call it when none runs. */
    public function end(): void
    {
        $this->stop();
        $this->ended();
        if ($this->isGreeted) {
            $this->bye();
        }
        // Whatever ends the program from here on is no news.
        $this->isGreeted = false;
        if (function_exists('pcntl_signal')) {
            pcntl_signal(SIGTERM, SIG_DFL);
        }
    }

    /** Sends lines to the worker. */
    public function send(string $lines): void
    {
        // A process that a handler forked has no right to speak for this one.
        if ($this->isOwn()) {
            $this->pipe->write($lines);
        }
    }

    /** Whether this is the process that the worker started, and none that a handler has forked. */
    public function isOwn(): bool
    {
        return getmypid() === $this->pid;
    }

    /** Why a job that runs should end, as far as the worker has said. */
    public function cancelled(string $ref): ?string
    {
        $this->look();
        return $this->running[$ref] ?? null;
    }

    /** @internal Waits for lines in a way that lets coroutines go on, which work on jobs: it gets the stream and the seconds. */
    public function waitBy(\Closure $wait): void
    {
        $this->areSeveral = true;
        $this->pipe->waitBy($wait);
    }

    /** @internal The job whose line is being decoded, which may take all the memory. */
    public function undecoded(): ?string
    {
        return self::refOf($this->undecoded);
    }

    /** Reads what the worker has written, without waiting for more. */
    private function look(): void
    {
        // A process that a handler forked would take the lines away from this one.
        while ($this->isOwn() && ($line = $this->pipe->line(0)) !== null) {
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
            $this->waiting[] = $message;
        } elseif (($message['type'] ?? '') === 'cancel' && is_string($message['ref'] ?? null)) {
            $this->cancel($message['ref'], (string) ($message['reason'] ?? 'cancelled'));
        }
    }

    /** Notes why a job that runs should end. One that has not begun never begins. */
    private function cancel(string $ref, string $reason): void
    {
        if (array_key_exists($ref, $this->running)) {
            if ($reason !== self::TAKEN_BACK) {
                $this->running[$ref] = $reason;
            }
            return;
        }
        foreach ($this->waiting as $at => $job) {
            if ($ref === self::refOfJob($job)) {
                array_splice($this->waiting, $at, 1);
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

    private function postponeAll(): void
    {
        foreach ($this->waiting as $job) {
            $this->postpone(self::refOfJob($job));
        }
        $this->waiting = [];
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

    /** @param string|array<string, mixed> $job */
    private static function refOfJob(string|array $job): string
    {
        return is_string($job) ? (string) self::refOf($job) : (string) $job['ref'];
    }

    /** The job of a line that is not decoded; null if it is none. */
    private static function refOf(?string $line): ?string
    {
        return preg_match('/\A\{"type":"job","ref":"([^"\\\\]+)"/', substr((string) $line, 0, 100), $found) === 1 ? $found[1] : null;
    }
}
