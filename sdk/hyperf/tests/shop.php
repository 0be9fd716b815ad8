<?php

// The application of the tests: its own Redis, its configuration, its server, and what it has noted.

declare(strict_types=1);

require dirname(__DIR__, 2) . '/php/tests/work.php';

final class Shop
{
    public const STREAMFLEET = 'Streamfleet\Hyperf\StreamfleetDriver::class';
    public const PROCESS = 'Hyperf\AsyncQueue\Process\ConsumerProcess';
    private readonly string $folder;
    /** @var array<string, string> */
    private array $environment;

    /**
     * @param array<string, string> $changes of the configuration: what is in place of what
     * @param array<string, mixed> $own keys below `streamfleet`
     */
    public function __construct(string $driver, array $changes = [], array $own = [], bool $isSwoole = false, string $process = self::PROCESS)
    {
        $program = binary();
        redis('FLUSHALL');
        $this->folder = folder();
        mkdir("{$this->folder}/bin");
        symlink($program, "{$this->folder}/bin/streamfleet");
        $config = str_replace('Hyperf\AsyncQueue\Driver\RedisDriver::class', $driver, file_get_contents(__DIR__ . '/app/config/async_queue.php'));
        foreach ($changes as $before => $after) {
            contains($before, $config);
            $config = str_replace($before, $after, $config);
        }
        $config = str_replace("'max_messages'", "'streamfleet' => " . var_export($own, true) . ",\n        'max_messages'", $config);
        file_put_contents("{$this->folder}/async_queue.php", $config);
        $this->environment = [
            'ASYNC_QUEUE' => "{$this->folder}/async_queue.php", 'REDIS_PORT' => (string) redisServer(), 'TMPDIR' => $this->folder, 'PROCESSES' => $process,
            'SWOOLE' => $isSwoole ? '1' : '0', 'PATH' => "{$this->folder}/bin:" . getenv('PATH'),
        ] + getenv();
    }

    public function set(string $variable, string $value): self
    {
        $this->environment[$variable] = $value;
        return $this;
    }

    public function run(string ...$command): string
    {
        [$code, $output] = $this->execute([__DIR__ . "/app/$command[0]", ...array_slice($command, 1)]);
        same(0, $code, $output);
        return $output;
    }

    public function hyperf(string ...$arguments): string
    {
        return $this->run('bin/hyperf.php', ...$arguments);
    }

    /** What a command prints that fails. */
    public function fails(string ...$arguments): string
    {
        [$code, $output] = $this->execute([__DIR__ . '/app/bin/hyperf.php', ...$arguments]);
        same(1, $code, $output);
        return $output;
    }

    /** Code that boots the application. */
    public static function boot(): string
    {
        return 'define("BASE_PATH", ' . var_export(__DIR__ . '/app', true) . '); require BASE_PATH . "/bootstrap.php";
            $driver = Hyperf\Context\ApplicationContext::getContainer()->get(Hyperf\AsyncQueue\Driver\DriverFactory::class)->get("default");';
    }

    /** Code that sets the variables of the application. */
    public function variables(): string
    {
        $names = ['ASYNC_QUEUE', 'REDIS_PORT', 'TMPDIR', 'SWOOLE'];
        return implode('', array_map(fn (string $name): string => 'putenv(' . var_export("$name={$this->environment[$name]}", true) . ');', $names));
    }

    public function eval(string $code): string
    {
        [$status, $output] = $this->execute(['-r', self::boot() . $code]);
        same(0, $status, $output);
        return $output;
    }

    /** Starts the server, as systemd does: again, whenever it ends. */
    public function start(string $command = 'start'): Work
    {
        return new Work([PHP_BINARY, 'bin/hyperf.php', $command], __DIR__ . '/app', $this->environment);
    }

    public function whileWorking(callable $body, string $command = 'start'): void
    {
        $server = $this->start($command);
        try {
            $body($server);
        } catch (Throwable $error) {
            echo $server->log(), implode("\n", $this->notes()), "\n{$error->getMessage()}\n";
            throw $error;
        } finally {
            $server->stop();
            eventually(fn (): bool => $this->pids('streamfleet worker') === [], 'the end of the workers', 30);
        }
    }

    /** @return list<string> what happened, in its order */
    public function notes(): array
    {
        return redis('LRANGE', 'notes', '0', '-1');
    }

    /** How many notes begin like this. */
    public function count(string $beginning): int
    {
        return count(array_filter($this->notes(), static fn (string $note): bool => str_starts_with($note, $beginning)));
    }

    public function await(string $beginning, int $times = 1, float $seconds = 60): void
    {
        eventually(fn (): bool => $this->count($beginning) >= $times, "$times times '$beginning'", $seconds);
    }

    /** @return list<int> the processes of this application with this in their command line */
    public function pids(string $part): array
    {
        return processesOf($this->folder, $part);
    }

    public function kill(string $part): void
    {
        posix_kill(eventually(fn (): int|false => current($this->pids($part)), "a process '$part'"), SIGKILL);
    }

    /** @return array{int, string} */
    private function execute(array $command): array
    {
        $process = proc_open([PHP_BINARY, '-d', 'zend.assertions=1', ...$command], [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes, __DIR__ . '/app', $this->environment);
        $output = stream_get_contents($pipes[1]);
        return [proc_close($process), (string) $output];
    }
}
