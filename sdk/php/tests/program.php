<?php

// What the tests of the packages for PHP share about the real program: it is started, watched and ended.

declare(strict_types=1);

/** The program, or the test is skipped. */
function binary(): string
{
    $binary = (string) getenv('STREAMFLEET_BIN');
    if ($binary === '') {
        throw new Skipped('STREAMFLEET_BIN does not name the program streamfleet');
    }
    return realpath($binary) ?: throw new Exception("STREAMFLEET_BIN names no file: $binary");
}

function environment(): array
{
    return ['STREAMFLEET__REDIS__URL' => 'redis://127.0.0.1:' . redisServer()];
}

/** A worker of the fleet that runs while the function does. */
function withWorker(string $types, callable $body): void
{
    $folder = folder();
    file_put_contents("$folder/streamfleet.toml", "[telemetry]\nlisten = \"127.0.0.1:" . freePort() . "\"\n[queues.default]\nconcurrency = 8\n$types");
    $log = "$folder/log";
    $worker = proc_open([binary(), 'worker'], [['file', '/dev/null', 'r'], ['file', $log, 'w'], ['file', $log, 'a']], $pipes, $folder, environment() + getenv());
    try {
        $body($folder);
    } catch (Throwable $error) {
        echo "the worker's log:\n", file_get_contents($log);
        throw $error;
    } finally {
        proc_terminate($worker, SIGTERM);
        try {
            eventually(static fn (): bool => !proc_get_status($worker)['running'], 'the end of the worker');
        } finally {
            proc_terminate($worker, SIGKILL);
            proc_close($worker);
        }
    }
}

/** The address of a console that runs until the tests end, and a token that may submit and see results. */
function console(): array
{
    static $console = null;
    if ($console !== null) {
        return $console;
    }
    $folder = folder();
    $output = shell_exec(escapeshellarg(binary()) . ' console token');
    preg_match('/token: +(\S+)\s+sha256: (\S+)/', (string) $output, $found) === 1 || throw new Exception("no token: $output");
    $port = freePort();
    file_put_contents("$folder/accounts.toml", "[tokens.shop]\nsha256 = \"$found[2]\"\nrole = \"submitter\"\npayloads = true\n");
    chmod("$folder/accounts.toml", 0600);
    file_put_contents("$folder/streamfleet.toml", "[console]\nlisten = \"127.0.0.1:$port\"\naccounts_file = \"$folder/accounts.toml\"\n");
    $log = "$folder/log";
    $process = proc_open([binary(), 'console'], [['file', '/dev/null', 'r'], ['file', $log, 'w'], ['file', $log, 'a']], $pipes, $folder, environment() + getenv());
    atEnd(static function () use ($process): void {
        proc_terminate($process, SIGKILL);
        proc_close($process);
    });
    eventually(static fn (): bool => @file_get_contents("http://127.0.0.1:$port/healthz") !== false, 'the start of the console: ' . file_get_contents($log));
    return $console = ["http://127.0.0.1:$port", $found[1]];
}
