<?php

declare(strict_types=1);

namespace Streamfleet;

/** The handlers of an application, and what surrounds them: a `Worker` runs them for a fleet, `Testing\Inline` in tests. */
abstract class Handlers
{
    /** @var array<string, callable|string> type → handler */
    private array $handlers = [];
    /** @var array<string, array<string, string|int>> type → what its handler needs, as the configuration says it */
    private array $settings = [];
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
    /** @var list<string> where the program was started, and where it is; errors name files from here */
    private array $folders = [];

    protected function __construct(private readonly ?\Closure $make)
    {
        $this->errors = new ErrorRules();
        $this->listeners = new Listeners();
    }

    /** How handlers that are given as class names are made. */
    protected static function makerOf(object|callable|null $container): ?\Closure
    {
        return match (true) {
            $container === null => null,
            is_callable($container) => $container(...),
            default => $container->get(...),
        };
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
            $type = Tasks::typeOf($class);
            $this->on($type, static fn (Job $job): mixed => Tasks::revive($class, $job->payload)->handle($job));
            $this->settings[$type] = Tasks::attribute($class)?->settings() ?? [];
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
            $attribute = Tasks::ofMethod($method);
            if ($attribute !== null) {
                $name = $method->getName();
                $this->on($attribute->type, static fn (Job $job): mixed => $get()->$name($job));
                $this->settings[$attribute->type] = $attribute->settings();
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

    /** @return list<string> the types that have handlers */
    public function types(): array
    {
        return array_map(strval(...), array_keys($this->handlers));
    }

    /** What the types need, as the contract in docs/pools.md says it. */
    protected function description(): string
    {
        $types = array_map(fn (string $type): object => (object) ($this->settings[$type] ?? []), $this->types());
        return Pipe::encode(['type' => 'handlers', 'protocol' => Inbox::PROTOCOL, 'types' => (object) array_combine($this->types(), $types)]);
    }

    /** Notes the folders from which errors name files. */
    protected function noteFolders(): void
    {
        $this->folders = [getcwd() . '/', dirname((string) realpath($_SERVER['SCRIPT_FILENAME'] ?? '')) . '/'];
    }

    /**
     * Runs the handler of a job, unless something speaks against it, and judges what it throws.
     *
     * @return array{Outcome, ?\Throwable}
     */
    protected function handle(Job $job, ?Outcome $refusal): array
    {
        $this->listeners->tell(new Event\Before($job));
        $leave = Trace::enter($job);
        try {
            return [match (true) {
                $refusal !== null => $refusal,
                !isset($this->handlers[$job->type]) => new Retry("this program has no handler for '{$job->type}'"),
                default => $this->outcome(($this->chains[$job->type] ??= $this->chain($job->type))($job)),
            }, null];
        } catch (\Throwable $error) {
            return [$this->judge($error, $job), $error];
        } finally {
            $leave();
        }
    }

    /** Tells the listeners how an attempt ended. */
    protected function tellEnd(Job $job, Outcome $outcome, ?\Throwable $error, float $seconds): void
    {
        $this->listeners->tell(self::ended($job, $outcome, $error, $seconds));
    }

    /** Calls what clears everything that must not pass from one job to the next. */
    protected function clear(Job $job): void
    {
        foreach ($this->resets as $reset) {
            $reset($job);
        }
    }

    /** Shows an exception of a handler to those who read the log. */
    abstract protected function report(string $text): void;

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
        $this->report("{$job->type} {$job->id}: $error\n");
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
    protected function place(string $file, int $line): string
    {
        foreach ($this->folders as $folder) {
            if (str_starts_with($file, $folder)) {
                return substr($file, strlen($folder)) . ":$line";
            }
        }
        return "$file:$line";
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
}
