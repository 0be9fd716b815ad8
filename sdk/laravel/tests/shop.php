<?php

// The application of the tests: its own Redis database and tables, its worker, and what it has noted.

declare(strict_types=1);

require dirname(__DIR__, 2) . '/php/tests/work.php';

final class Shop
{
    public readonly string $mailLog;
    /** @var array<string, string> */
    private readonly array $environment;
    private readonly PDO $db;

    public function __construct(string $driver, ?string $program = null, int $processes = 2, string $client = 'phpredis', int $ahead = 4)
    {
        $binary = $program ?? binary();
        if (!is_dir('/usr/share/php/Illuminate/Queue')) {
            throw new Skipped('there is no illuminate/queue (Debian: php-illuminate-queue)');
        }
        redis('FLUSHALL');
        $folder = folder();
        $this->mailLog = "$folder/mail.log";
        touch($this->mailLog);
        $this->environment = [
            'QUEUE_CONNECTION' => $driver, 'REDIS_CLIENT' => $client, 'QUEUE_AHEAD' => (string) $ahead, 'QUEUE_PROGRAM' => $binary, 'QUEUE_PROCESSES' => (string) $processes, 'REDIS_PORT' => (string) redisServer(),
            'DB_DATABASE' => "$folder/db.sqlite", 'MAIL_LOG' => $this->mailLog, 'TMPDIR' => $folder,
        ] + getenv();
        $this->run('migrate.php');
        $this->db = new PDO("sqlite:$folder/db.sqlite");
    }

    /** Runs a file of the application, and returns what it prints. */
    public function run(string ...$command): string
    {
        [$code, $output] = $this->execute([__DIR__ . "/app/$command[0]", ...array_slice($command, 1)]);
        same(0, $code, $output);
        return $output;
    }

    public function eval(string $code): string
    {
        [$status, $output] = $this->execute(['-r', '$app = require ' . var_export(__DIR__ . '/app/bootstrap.php', true) . "; $code"]);
        same(0, $status, $output);
        return $output;
    }

    public function artisan(string ...$arguments): string
    {
        return $this->run('artisan', ...$arguments);
    }

    /** What a command prints that fails. */
    public function fails(string ...$arguments): string
    {
        [$code, $output] = $this->execute([__DIR__ . '/app/artisan', ...$arguments]);
        same(1, $code, $output);
        return $output;
    }

    public function dispatch(string $job): void
    {
        $this->eval("Illuminate\\Support\\Facades\\Bus::dispatch($job);");
    }

    public function dispatchMany(string $class, int $jobs): void
    {
        $this->eval("for (\$n = 0; \$n < $jobs; \$n++) { Illuminate\\Support\\Facades\\Bus::dispatch(new $class(\"n\$n\")); }");
    }

    /** @return array{int, string} */
    private function execute(array $command): array
    {
        $process = proc_open([PHP_BINARY, ...$command], [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes, __DIR__ . '/app', $this->environment);
        $output = stream_get_contents($pipes[1]);
        return [proc_close($process), (string) $output];
    }

    /** Starts `queue:work`, as Supervisor does: again, whenever it ends. */
    public function start(array $arguments, array $environment = []): Work
    {
        return new Work([PHP_BINARY, 'artisan', 'queue:work', ...$arguments], __DIR__ . '/app', $environment + $this->environment);
    }

    public function whileWorking(array $arguments, callable $body): void
    {
        $worker = $this->start($arguments);
        try {
            $body($worker);
        } catch (Throwable $error) {
            echo $worker->log();
            throw $error;
        } finally {
            $worker->stop();
        }
    }

    /** @return list<string> what happened, in its order */
    public function notes(): array
    {
        return $this->db->query('SELECT what FROM notes ORDER BY id')->fetchAll(PDO::FETCH_COLUMN);
    }

    public function awaitNotes(callable $enough, string $what): void
    {
        try {
            eventually(fn (): bool => $enough($this->notes()), $what, 60);
        } catch (Exception $error) {
            throw new Exception("{$error->getMessage()}. Notes:\n" . implode("\n", $this->notes()) . "\nFailed:\n" . implode("\n", $this->db->query('SELECT substr(exception, 1, 300) FROM failed_jobs')->fetchAll(PDO::FETCH_COLUMN)));
        }
    }

    public function timeOf(string $note): float
    {
        $query = $this->db->prepare('SELECT at FROM notes WHERE what = ?');
        $query->execute([$note]);
        return (float) $query->fetchColumn();
    }

    /** How many podcasts were processed, each counted once. */
    public function podcasts(): int
    {
        preg_match_all('/^processed (n\d+) /m', implode("\n", $this->notes()), $found);
        return count(array_unique($found[1]));
    }

    /** Why a job is in failed_jobs. */
    public function failure(string $class): string
    {
        $query = $this->db->prepare('SELECT exception FROM failed_jobs WHERE payload LIKE ?');
        $query->execute(["%$class%"]);
        return preg_match('/^[\w\\\\]+: (.*?)(\.| in \/)/', (string) $query->fetchColumn(), $found) === 1 ? $found[1] : 'not failed';
    }

    public function size(): int
    {
        return (int) $this->eval('echo $app["queue"]->connection()->size();');
    }
}
