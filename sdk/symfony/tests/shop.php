<?php

// The application of the tests: its own files and Redis database, its worker, and what it has noted.

declare(strict_types=1);

require dirname(__DIR__, 2) . '/php/tests/work.php';

final class Shop
{
    private readonly string $var;
    /** @var array<string, string> */
    private readonly array $environment;

    /** @param array<string, mixed> $options */
    public function __construct(string $scheme, array $options = [], ?string $dsn = null)
    {
        $binary = binary();
        if (!is_dir('/usr/share/php/Symfony/Component/Messenger')) {
            throw new Skipped('there is no symfony/messenger (Debian: php-symfony-messenger)');
        }
        redis('FLUSHALL');
        $this->var = folder();
        $address = "$scheme://127.0.0.1:" . redisServer();
        $isOwn = $scheme === 'redis';
        $this->environment = [
            'APP_VAR' => $this->var,
            'TMPDIR' => $this->var,
            'MESSENGER_TRANSPORT_DSN' => $dsn ?? ($isOwn ? "$address/messages" : "$address?queue=async"),
            'MESSENGER_HIGH_DSN' => $isOwn ? "$address/high" : "$address?queue=high",
            'MESSENGER_OPTIONS' => $isOwn ? '' : json_encode($options + ['program' => $binary, 'processes' => 2, 'ahead' => 4]),
        ] + getenv();
    }

    /** Runs the part of the application that dispatches messages: all kinds, or many of one class. */
    public function dispatch(string $class = '', int $many = 1, int $works = 1): void
    {
        [$code, $output] = $this->execute(['shop.php', $class, (string) $many, (string) $works]);
        same(0, $code, $output);
    }

    /** Runs code of the application, which has `$bus`. */
    public function eval(string $code): void
    {
        $boot = 'require "autoload.php"; $kernel = new App\Kernel("prod", false); $kernel->boot(); $bus = $kernel->getContainer()->get("messenger.default_bus");';
        // A use must stand before other statements.
        preg_match('/\A(use .*?; )?(.*)\z/s', $code, $parts);
        [$status, $output] = $this->execute(['-r', "$parts[1]$boot $parts[2]"]);
        same(0, $status, $output);
    }

    /** @return array{int, string} */
    public function console(string ...$arguments): array
    {
        return $this->execute(['console', ...$arguments]);
    }

    /** @return array{int, string} */
    private function execute(array $command): array
    {
        $process = proc_open([PHP_BINARY, ...$command], [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes, __DIR__ . '/app', $this->environment);
        $output = stream_get_contents($pipes[1]);
        return [proc_close($process), (string) $output];
    }

    /** Starts `messenger:consume`, as Supervisor does: again, whenever it ends. */
    public function start(array $arguments = ['high', 'async'], array $environment = []): Work
    {
        // Two processes must not compile the container at once.
        $this->console('messenger:consume', '--help');
        return new Work([PHP_BINARY, 'console', 'messenger:consume', ...$arguments], __DIR__ . '/app', $environment + $this->environment);
    }

    public function whileWorking(callable $body): void
    {
        $worker = $this->start();
        try {
            $body($worker);
        } catch (Throwable $error) {
            echo $worker->log(), "\n", implode("\n", $this->notes()), "\n";
            throw $error;
        } finally {
            $worker->stop();
        }
    }

    /** @return list<string> what happened, in its order */
    public function notes(): array
    {
        return array_map(static fn (string $line): string => explode(' ', $line, 2)[1], $this->lines());
    }

    public function timeOf(string $note): float
    {
        return (float) current(preg_grep('/ ' . preg_quote($note, '/') . '$/', $this->lines()));
    }

    public function await(callable $enough, string $what): void
    {
        eventually(fn (): bool => $enough($this->notes()), $what, 60);
    }

    /** @return list<string> */
    private function lines(): array
    {
        return @file("{$this->var}/notes", FILE_IGNORE_NEW_LINES) ?: [];
    }
}
