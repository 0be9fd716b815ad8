<?php

// The application of the tests: a copy of it with its own Redis and configuration, its server, and what it has noted.

declare(strict_types=1);

require dirname(__DIR__, 2) . '/php/tests/work.php';

final class Shop
{
    private const OWN = 'config/plugin/streamfleet/webman/app.php';
    private const PLUGIN = 'config/plugin/webman/redis-queue';
    private readonly string $folder;
    /** @var array<string, string> */
    private array $environment;

    /**
     * @param array<string, string> $changes of the configuration of the package: what is in place of what
     * @param array<string, string> $plugin the same of that of webman/redis-queue
     */
    public function __construct(array $changes = ["'enable' => false" => "'enable' => true"], array $plugin = [])
    {
        $program = binary();
        redis('FLUSHALL');
        $this->folder = folder();
        $this->copy(__DIR__ . '/app', "{$this->folder}/app");
        mkdir("{$this->folder}/bin");
        symlink($program, "{$this->folder}/bin/streamfleet");
        $this->change(dirname(__DIR__) . '/src/' . self::OWN, self::OWN, $changes);
        foreach (['redis.php', 'process.php'] as $file) {
            $here = array_filter($plugin, static fn (string $before): bool => str_contains(file_get_contents(__DIR__ . '/app/' . self::PLUGIN . "/$file"), $before), ARRAY_FILTER_USE_KEY);
            $this->change(__DIR__ . '/app/' . self::PLUGIN . "/$file", self::PLUGIN . "/$file", $here);
            $plugin = array_diff_key($plugin, $here);
        }
        same([], $plugin, 'changes of what is not there');
        $this->environment = [
            'REDIS_PORT' => (string) redisServer(), 'PACKAGES' => dirname(__DIR__, 2), 'TMPDIR' => $this->folder, 'PATH' => "{$this->folder}/bin:" . getenv('PATH'),
            'STOP_TIMEOUT' => '10',
        ] + getenv();
    }

    public function set(string $variable, string $value): self
    {
        $this->environment[$variable] = $value;
        return $this;
    }

    public function run(string ...$command): string
    {
        return $this->execute(["{$this->folder}/app/$command[0]", ...array_slice($command, 1)]);
    }

    public function eval(string $code): string
    {
        return $this->execute(['-r', "require 'vendor/autoload.php'; require 'support/bootstrap.php'; $code"]);
    }

    /** What `php start.php reload` does. */
    public function reload(): void
    {
        posix_kill((int) file_get_contents("{$this->folder}/app/webman.pid"), SIGUSR1);
    }

    /** Starts the server, as systemd does: again, whenever it ends. */
    public function start(): Work
    {
        return new Work([PHP_BINARY, 'start.php', 'start'], "{$this->folder}/app", $this->environment);
    }

    public function whileWorking(callable $body): void
    {
        $server = $this->start();
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

    /** @return list<int> the processes of this application with this in their command lines */
    public function pids(string $part): array
    {
        return processesOf($this->folder, $part);
    }

    public function kill(string $part): void
    {
        posix_kill(eventually(fn (): int|false => current($this->pids($part)), "a process '$part'"), SIGKILL);
    }

    /** @param array<string, string> $changes */
    private function change(string $from, string $to, array $changes): void
    {
        $text = file_get_contents($from);
        foreach ($changes as $before => $after) {
            contains($before, $text);
            $text = str_replace($before, $after, $text);
        }
        $file = "{$this->folder}/app/$to";
        is_dir(dirname($file)) || mkdir(dirname($file), 0700, true);
        file_put_contents($file, $text);
    }

    private function copy(string $from, string $to): void
    {
        mkdir($to);
        foreach (array_diff(scandir($from), ['.', '..']) as $name) {
            is_dir("$from/$name") ? $this->copy("$from/$name", "$to/$name") : copy("$from/$name", "$to/$name");
        }
    }

    private function execute(array $command): string
    {
        $process = proc_open([PHP_BINARY, '-d', 'zend.assertions=1', ...$command], [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes, "{$this->folder}/app", $this->environment);
        $output = stream_get_contents($pipes[1]);
        same(0, proc_close($process), $output);
        return (string) $output;
    }
}
