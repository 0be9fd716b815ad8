<?php

declare(strict_types=1);

namespace Streamfleet;

/**
 * Turns the command by which a framework works on its jobs into `streamfleet worker`, whose pool runs that same command. What starts,
 * stops and watches the command goes on as before.
 */
final class Launcher
{
    /** The framework decides how often a job may fail, and how long it runs. */
    private const NO_LIMIT = 4_294_967_295;
    private const LONGEST_TIMEOUT = '1d';
    /** Jobs that a worker holds and has not begun are lost with it, too. */
    private const MOST_LOSSES = 20;
    private const LOG = 'info,streamfleet::handlers=debug';
    private const LINE = '64MiB';

    /**
     * @param string $redis the address of Redis, as in `redis.url` of the configuration
     * @param list<string> $queues the queues to work on
     * @param string $program the program streamfleet
     * @param string $namespace `redis.namespace` of the fleet
     * @param int $processes how many copies of the command run
     * @param ?string $config a configuration of your own, in place of the one that this class writes
     * @param int $ahead how many further jobs a copy gets while it works: good for jobs of a few milliseconds, which wait behind a long one
     * @param int $inflight how many jobs a copy works on at once; above 1, none are given ahead
     */
    public function __construct(
        #[\SensitiveParameter] private readonly string $redis,
        private readonly array $queues,
        private readonly string $program = 'streamfleet',
        private readonly string $namespace = 'sf',
        private readonly int $processes = 1,
        private readonly ?string $config = null,
        private readonly int $ahead = 0,
        private readonly int $inflight = 1,
    ) {
        array_map(Submission::queue(...), $queues);
    }

    /**
     * Becomes the worker. It returns only if that fails, with an exception.
     *
     * @param list<string> $command the command of the pool
     * @param string $type the type of the framework's jobs
     */
    public function become(array $command, string $type): never
    {
        [$line, $environment] = $this->worker($command, $type);
        $program = array_shift($line);
        if (function_exists('pcntl_exec')) {
            // An alarm and signals that are held back would outlive the framework.
            pcntl_alarm(0);
            pcntl_sigprocmask(SIG_SETMASK, []);
            @pcntl_exec($program, $line, $environment);
            throw new \RuntimeException("$program could not be started: " . pcntl_strerror(pcntl_get_last_error()));
        }
        $process = proc_open([$program, ...$line], [STDIN, STDOUT, STDERR], $pipes, null, $environment);
        exit($process === false ? 1 : proc_close($process));
    }

    /**
     * Starts the worker beside this process, for a framework that has processes of its own.
     *
     * @param list<string> $command the command of the pool
     * @param string $type the type of the framework's jobs
     */
    public function start(array $command, string $type): WorkerProcess
    {
        return WorkerProcess::start(...$this->worker($command, $type));
    }

    /**
     * @param list<string> $command
     * @return array{non-empty-list<string>, array<string, string>} the command of the worker, and its environment
     */
    private function worker(array $command, string $type): array
    {
        $config = $this->config ?? self::file($this->configuration($command, $type));
        [$program, $environment] = $this->program();
        return [[$program, 'worker', '--config', $config], $environment + getenv() + ['STREAMFLEET__TELEMETRY__LOG' => self::LOG]];
    }

    /**
     * The command of this process, with the options of PHP that it was started with.
     *
     * @return non-empty-list<string>
     */
    public static function ownCommand(): array
    {
        $line = explode("\0", rtrim((string) @file_get_contents('/proc/self/cmdline'), "\0"));
        return [PHP_BINARY, ...count($line) > 1 ? array_slice($line, 1) : $_SERVER['argv']];
    }

    /** @return array{string, array<string, string>} the program streamfleet, and the variables that say where its Redis is */
    public function program(): array
    {
        return [$this->found(), ['STREAMFLEET__REDIS__URL' => $this->redis, 'STREAMFLEET__REDIS__NAMESPACE' => $this->namespace]];
    }

    /**
     * The configuration of the worker.
     *
     * @param list<string> $command
     */
    public function configuration(array $command, string $type): string
    {
        $passed = array_values(array_filter(array_keys(getenv()), static fn (string $name): bool => preg_match('/\A(?!STREAMFLEET_)[A-Za-z_][A-Za-z0-9_]*\z/', $name) === 1));
        $ahead = $this->inflight > 1 ? 0 : $this->ahead;
        $room = $this->processes * ($this->inflight + $ahead);
        $lines = ['[telemetry]', 'listen = "off"'];
        foreach ($this->queues as $queue) {
            array_push($lines, "[queues.$queue]", "concurrency = $room");
        }
        array_push(
            $lines,
            '[pools.app]',
            'command = ' . self::toml($command),
            'directory = ' . self::toml((string) getcwd()),
            'pass_env = ' . self::toml($passed),
            'env = { ' . Inbox::VARIABLE . ' = "1" }',
            "processes = {$this->processes}",
            "inflight = {$this->inflight}",
            "ahead = $ahead",
            'start = "eager"',
            'start_timeout = "60s"',
            'max_line = "' . self::LINE . '"',
            "[types.\"$type\"]",
            'handler = { pool = "app" }',
            'max_attempts = ' . self::NO_LIMIT,
            'max_losses = ' . self::MOST_LOSSES,
            'timeout = "' . self::LONGEST_TIMEOUT . '"',
            // For jobs that end their program. The pauses of the framework are longer.
            'backoff = { exponential = { base = "10ms", factor = 2.0, max = "5s" } }',
            'jitter = 0',
        );
        return implode("\n", $lines) . "\n";
    }

    /** @param string|list<string> $value */
    private static function toml(string|array $value): string
    {
        // JSON escapes what TOML escapes, in the same way.
        return json_encode($value, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE | JSON_THROW_ON_ERROR);
    }

    /** A file with this text, which only this user may write. */
    private static function file(string $text): string
    {
        $user = function_exists('posix_geteuid') ? posix_geteuid() : getmyuid();
        $folder = sys_get_temp_dir() . "/streamfleet-$user";
        if (!is_dir($folder) && !@mkdir($folder, 0700) && !is_dir($folder)) {
            throw new \RuntimeException("$folder could not be created: name another folder by TMPDIR");
        }
        if (is_link($folder) || fileowner($folder) !== $user) {
            throw new \RuntimeException("$folder belongs to somebody else: delete it, or name another folder by TMPDIR");
        }
        $file = "$folder/" . substr(hash('sha256', $text), 0, 32) . '.toml';
        $new = "$file." . getmypid();
        if (@file_put_contents($new, $text) === false || !rename($new, $file)) {
            throw new \RuntimeException("$file could not be written");
        }
        return $file;
    }

    private function found(): string
    {
        if (str_contains($this->program, '/')) {
            return is_executable($this->program) ? $this->program : throw new \RuntimeException("there is no program {$this->program}: see https://github.com/streamfleet/streamfleet/blob/main/docs/install.md");
        }
        foreach (explode(':', (string) getenv('PATH')) as $folder) {
            if (is_executable("$folder/{$this->program}")) {
                return "$folder/{$this->program}";
            }
        }
        throw new \RuntimeException("there is no program {$this->program} in PATH: see https://github.com/streamfleet/streamfleet/blob/main/docs/install.md");
    }
}
