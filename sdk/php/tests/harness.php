<?php

// What the tests share: a runner, a private Redis, and a program that talks to them as a worker would.

declare(strict_types=1);

require __DIR__ . '/../autoload.php';

error_reporting(E_ALL);
set_error_handler(static function (int $kind, string $text, string $file, int $line): bool {
    if (error_reporting() & $kind) {
        throw new ErrorException($text, 0, $kind, $file, $line);
    }
    return false;
});

/** Registers a function for the end of the tests, or calls all of them, the last one first. */
function atEnd(?callable $cleanup = null): void
{
    static $cleanups = [];
    if ($cleanup !== null) {
        $cleanups[] = $cleanup;
        return;
    }
    while (($each = array_pop($cleanups)) !== null) {
        $each();
    }
}

/** Runs a test, or skips it if it says so. With arguments on the command line, only tests whose names contain one of them. */
function test(string $name, callable $body): void
{
    static $failed = 0, $passed = 0, $skipped = 0, $isFirst = true;
    if ($isFirst) {
        $isFirst = false;
        register_shutdown_function(static function () use (&$failed, &$passed, &$skipped): void {
            atEnd();
            echo basename($_SERVER['argv'][0], '.php'), ": $passed passed, $failed failed, $skipped skipped\n";
            exit($failed > 0 || $passed + $skipped === 0 && $_SERVER['argc'] === 1 ? 1 : 0);
        });
    }
    $wanted = array_slice($_SERVER['argv'], 1);
    if ($wanted !== [] && array_filter($wanted, static fn (string $part): bool => str_contains($name, $part)) === []) {
        return;
    }
    try {
        $body();
        $passed += 1;
    } catch (Skipped $reason) {
        $skipped += 1;
        echo "skip $name: {$reason->getMessage()}\n";
    } catch (Throwable $error) {
        $failed += 1;
        echo "FAIL $name: ", $error::class, ": {$error->getMessage()}\n  at {$error->getFile()}:{$error->getLine()}\n";
        foreach ($error->getTrace() as $call) {
            if (str_starts_with($call['file'] ?? '', __DIR__) && $call['file'] !== __FILE__) {
                echo "  from {$call['file']}:{$call['line']}\n";
            }
        }
    } finally {
        Program::endAll();
    }
}

final class Skipped extends Exception
{
}

function same(mixed $wanted, mixed $found, string $what = ''): void
{
    if ($wanted !== $found) {
        throw new Exception(trim("$what: wanted " . var_export($wanted, true) . ', found ' . var_export($found, true), ' :'));
    }
}

function contains(string $part, ?string $text): void
{
    if (!str_contains((string) $text, $part)) {
        throw new Exception("'$part' is not in: $text");
    }
}

/** The exception of this class that the function throws. */
function thrown(string $class, callable $body): Throwable
{
    try {
        $body();
    } catch (Throwable $error) {
        if ($error instanceof $class) {
            return $error;
        }
        throw $error;
    }
    throw new Exception("nothing was thrown, wanted $class");
}

/** Waits until the function returns something else than null or false. */
function eventually(callable $probe, string $what, float $seconds = 20.0): mixed
{
    for ($end = microtime(true) + $seconds; microtime(true) < $end; usleep(10_000)) {
        $found = $probe();
        if ($found !== null && $found !== false) {
            return $found;
        }
    }
    throw new Exception("$what did not happen within $seconds s");
}

/** A folder that is removed at the end. */
function folder(): string
{
    $path = sys_get_temp_dir() . '/streamfleet-php-' . getmypid() . '-' . bin2hex(random_bytes(4));
    mkdir($path, 0700);
    atEnd(static function () use ($path): void {
        foreach (new RecursiveIteratorIterator(new RecursiveDirectoryIterator($path, FilesystemIterator::SKIP_DOTS), RecursiveIteratorIterator::CHILD_FIRST) as $file) {
            $file->isDir() && !$file->isLink() ? rmdir($file->getPathname()) : unlink($file->getPathname());
        }
        rmdir($path);
    });
    return $path;
}

/** A port on which nothing listens. */
function freePort(): int
{
    $socket = stream_socket_server('tcp://127.0.0.1:0');
    $port = (int) substr(strrchr(stream_socket_get_name($socket, false), ':'), 1);
    fclose($socket);
    return $port;
}

/** The port of a private Redis server that ends with the tests. */
function redisServer(): int
{
    static $port = null;
    return $port ??= startRedis();
}

/** Starts another one with these arguments. */
function startRedis(string ...$arguments): int
{
    $program = getenv('STREAMFLEET_TEST_REDIS') ?: 'redis-server';
    $port = freePort();
    $log = folder() . '/redis.log';
    $command = [$program, '--port', (string) $port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', dirname($log), ...$arguments];
    $server = proc_open($command, [['file', '/dev/null', 'r'], ['file', $log, 'w'], ['file', $log, 'a']], $pipes);
    atEnd(static function () use ($server): void {
        proc_terminate($server, SIGKILL);
        proc_close($server);
    });
    eventually(static fn (): bool => str_contains((string) @file_get_contents($log), 'Ready to accept connections'), "the start of $program");
    return $port;
}

/** One reply of the private Redis to a command, by the tests' own connection. */
function redis(string ...$command): mixed
{
    static $connection = null;
    if ($connection === null) {
        $connection = stream_socket_client('tcp://127.0.0.1:' . redisServer());
        stream_set_timeout($connection, 10);
    }
    $text = '*' . count($command) . "\r\n";
    foreach ($command as $part) {
        $text .= '$' . strlen($part) . "\r\n$part\r\n";
    }
    fwrite($connection, $text);
    $read = static function () use ($connection, &$read): mixed {
        $line = rtrim((string) fgets($connection), "\r\n");
        $rest = substr($line, 1);
        return match ($line[0]) {
            '+' => $rest,
            '-' => throw new Exception($rest),
            ':' => (int) $rest,
            '$' => (int) $rest < 0 ? null : substr(stream_get_contents($connection, (int) $rest + 2), 0, -2),
            '*' => (int) $rest < 0 ? null : array_map($read, array_fill(0, (int) $rest, null)),
        };
    };
    return $read();
}

/**
 * The entries of a stream: id → fields.
 *
 * @return array<string, array<string, string>>
 */
function entries(string $key): array
{
    $entries = [];
    foreach (redis('XRANGE', $key, '-', '+') as [$id, $flat]) {
        foreach (array_chunk($flat, 2) as [$name, $value]) {
            $entries[$id][$name] = $value;
        }
    }
    return $entries;
}

/** A pool's program, and the worker's side of its pipes. */
final class Program
{
    /** @var list<self> */
    private static array $all = [];
    private string $buffer = '';
    private ?int $code = null;
    private int $refs = 0;

    /** @param resource $process */
    private function __construct(private $process, public array $pipes, private string $errors)
    {
    }

    /** Starts PHP code that begins with the SDK loaded and `$worker` created, and shakes hands. */
    public static function start(string $code, string ...$options): self
    {
        $program = self::bare('$worker = Streamfleet\Worker::create();' . "\n" . $code, ...$options);
        $program->send(['type' => 'hello', 'protocol' => 1, 'streamfleet' => '0.0.0', 'pool' => 'php', 'inflight' => 1]);
        same('ready', $program->read()['type']);
        return $program;
    }

    /** Starts PHP code that begins with the SDK loaded, with options of PHP. */
    public static function bare(string $code, string ...$options): self
    {
        $file = folder() . '/program.php';
        file_put_contents($file, "<?php\ndeclare(strict_types=1);\nuse Streamfleet\\{Done, Drop, Event, Fatal, FatalError, Job, JobType, Retry, Snooze, Task, Unknown, UnknownError, Worker};\nrequire " . var_export(dirname(__DIR__) . '/autoload.php', true) . ";\n$code\n");
        return self::spawn(dirname($file), ...$options, ...[$file]);
    }

    /** Starts a program of this folder, and shakes hands. */
    public static function in(string $folder, string $file): self
    {
        $program = self::spawn($folder, $file);
        $program->send(['type' => 'hello', 'protocol' => 1, 'streamfleet' => '0.0.0', 'pool' => 'php', 'inflight' => 1]);
        same('ready', $program->read()['type'], $program->stderr());
        return $program;
    }

    private static function spawn(string $folder, string ...$arguments): self
    {
        $errors = folder() . '/stderr';
        $process = proc_open([PHP_BINARY, ...$arguments], [['pipe', 'r'], ['pipe', 'w'], ['file', $errors, 'w']], $pipes, $folder);
        stream_set_blocking($pipes[1], false);
        return self::$all[] = new self($process, $pipes, $errors);
    }

    public static function endAll(): void
    {
        foreach (self::$all as $program) {
            if ($program->code === null) {
                proc_terminate($program->process, SIGKILL);
                proc_close($program->process);
            }
        }
        self::$all = [];
    }

    public function write(string $text): void
    {
        for (; $text !== ''; $text = substr($text, $written)) {
            // The program may have ended.
            $written = @fwrite($this->pipes[0], $text);
            if ($written === false) {
                return;
            }
        }
    }

    public function send(array $message): void
    {
        $this->write(json_encode($message, JSON_THROW_ON_ERROR) . "\n");
    }

    /** Sends a job and returns its ref. */
    public function job(string $type, mixed $payload = null, array $fields = []): string
    {
        $ref = (string) ++$this->refs;
        $this->send($fields + [
            'type' => 'job', 'ref' => $ref, 'id' => "job-$ref", 'job_type' => $type, 'queue' => 'default', 'attempt' => 1,
            'max_attempts' => 5, 'timeout_ms' => 30000, 'created_ms' => 1700000000000, 'headers' => new stdClass(),
            'encoding' => 'json', 'payload' => $payload,
        ]);
        return $ref;
    }

    /** Sends a job and returns its result line without type and ref. */
    public function answer(string $type, mixed $payload = null, array $fields = []): array
    {
        return $this->result($this->job($type, $payload, $fields));
    }

    /** The result of this job, after any other lines about it. */
    public function result(string $ref): array
    {
        do {
            $line = $this->read();
            same($ref, $line['ref'] ?? null, json_encode($line));
        } while ($line['type'] !== 'result');
        unset($line['type'], $line['ref']);
        return $line;
    }

    /** The next line; null at the end of the output. */
    public function read(float $seconds = 60.0): ?array
    {
        $end = microtime(true) + $seconds;
        while (($at = strpos($this->buffer, "\n")) === false) {
            $read = [$this->pipes[1]];
            $none = null;
            $left = $end - microtime(true);
            if ($left <= 0 || stream_select($read, $none, $none, (int) $left, (int) (fmod($left, 1) * 1e6)) === 0) {
                throw new Exception('the program wrote no line; standard error: ' . $this->stderr());
            }
            $part = fread($this->pipes[1], 1 << 20);
            if ($part === '' && feof($this->pipes[1])) {
                same('', $this->buffer, 'an unfinished line');
                return null;
            }
            $this->buffer .= $part;
        }
        $line = substr($this->buffer, 0, $at);
        $this->buffer = substr($this->buffer, $at + 1);
        return json_decode($line, true, 4096, JSON_THROW_ON_ERROR | JSON_BIGINT_AS_STRING);
    }

    public function stderr(): string
    {
        return (string) file_get_contents($this->errors);
    }

    public function signal(int $signal): void
    {
        proc_terminate($this->process, $signal);
    }

    public function closeInput(): void
    {
        fclose($this->pipes[0]);
    }

    /** Waits for the end, and returns the exit code. */
    public function exitCode(): int
    {
        $this->code = eventually(function (): ?int {
            $status = proc_get_status($this->process);
            return $status['running'] ? null : ($status['signaled'] ? 128 + $status['termsig'] : $status['exitcode']);
        }, 'the end of the program', 60.0);
        proc_close($this->process);
        return $this->code;
    }
}
