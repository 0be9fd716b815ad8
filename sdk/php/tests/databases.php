<?php

// Private databases for tests: SQLite, and MariaDB and PostgreSQL if they are installed. All have the tables of the fleet.

declare(strict_types=1);

/** Runs a test on each database: the body gets a function that connects to empty tables. */
function eachDatabase(string $name, callable $body): void
{
    foreach (['sqlite', 'mysql', 'pgsql'] as $driver) {
        test("{$name}_with_$driver", static function () use ($driver, $body): void {
            if (!in_array($driver, PDO::getAvailableDrivers(), true)) {
                throw new Skipped("PHP has no driver $driver (Debian: php-" . ($driver === 'sqlite' ? 'sqlite3' : $driver) . ')');
            }
            $dsn = match ($driver) {
                'sqlite' => 'sqlite:' . folder() . '/db',
                'mysql' => mariadb(),
                'pgsql' => postgres(),
            };
            $connect = static fn (array $options = []): PDO => new PDO($dsn, $driver === 'pgsql' ? 'postgres' : 'root', '', $options);
            createTables($connect(), $driver);
            $body($connect, $dsn);
        });
    }
}

function createTables(PDO $db, string $driver): void
{
    [$seq, $bytes, $text, $end] = [
        'sqlite' => ['INTEGER PRIMARY KEY AUTOINCREMENT', 'BLOB', 'TEXT', ''],
        'mysql' => ['BIGINT AUTO_INCREMENT PRIMARY KEY', 'LONGBLOB', 'LONGTEXT', 'ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin'],
        'pgsql' => ['BIGSERIAL PRIMARY KEY', 'BYTEA', 'TEXT', ''],
    ][$driver];
    foreach (['streamfleet_outbox', 'streamfleet_effects', 'accounts', 'transfers'] as $table) {
        $db->exec("DROP TABLE IF EXISTS $table");
    }
    $db->exec("CREATE TABLE streamfleet_outbox (seq $seq, job_id VARCHAR(128) NOT NULL, queue VARCHAR(64) NOT NULL, lane VARCHAR(8), type VARCHAR(128) NOT NULL,
        payload $bytes NOT NULL, encoding VARCHAR(8), headers $text, run_at_ms BIGINT, options $text, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, refused $text) $end");
    $db->exec("CREATE TABLE streamfleet_effects (queue VARCHAR(64) NOT NULL, job_id VARCHAR(128) NOT NULL, step VARCHAR(64) NOT NULL DEFAULT '', fence_ms BIGINT NOT NULL,
        fence_seq BIGINT NOT NULL, result $bytes, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (queue, job_id, step)) $end");
    $db->exec("CREATE TABLE accounts (name VARCHAR(20) PRIMARY KEY, balance INTEGER NOT NULL) $end");
    $db->exec("CREATE TABLE transfers (number INTEGER NOT NULL) $end");
    $db->exec("INSERT INTO accounts VALUES ('ann', 0), ('bob', 0)");
}

/** A folder for a server that may not run as root: its user, if the tests run as root, owns the folder. */
function serverFolder(string $user): string
{
    $path = sys_get_temp_dir() . '/sf-' . getmypid() . '-' . bin2hex(random_bytes(3));
    mkdir($path, 0700);
    if (posix_getuid() === 0) {
        chown($path, $user);
    }
    atEnd(static fn () => proc_close(proc_open(['rm', '-rf', $path], [], $pipes)));
    return $path;
}

/** Starts a command, as this user if the tests run as root. */
function asUser(string $user, array $command, string $log): mixed
{
    $switch = posix_getuid() === 0 ? ['setpriv', "--reuid=$user", "--regid=$user", '--clear-groups'] : [];
    return proc_open([...$switch, ...$command], [['file', '/dev/null', 'r'], ['file', $log, 'w'], ['file', $log, 'a']], $pipes, sys_get_temp_dir());
}

/** Starts a server that ends with the tests, and waits until it takes connections. */
function startServer(string $user, array $install, array $server, callable $connect): void
{
    $log = folder() . '/log';
    same(0, proc_close(asUser($user, $install, $log)), (string) file_get_contents($log));
    $process = asUser($user, $server, $log);
    atEnd(static function () use ($process): void {
        proc_terminate($process, SIGKILL);
        proc_close($process);
    });
    eventually(static function () use ($connect, $process, $log): bool {
        same(true, proc_get_status($process)['running'], (string) file_get_contents($log));
        try {
            $connect();
            return true;
        } catch (PDOException) {
            return false;
        }
    }, "the start of {$server[0]}", 90.0);
}

/** The DSN of a private MariaDB. */
function mariadb(): string
{
    static $dsn = null;
    if ($dsn !== null) {
        return $dsn;
    }
    $program = first(['/usr/sbin/mariadbd', '/usr/libexec/mariadbd'], 'MariaDB', 'mariadb-server');
    $folder = serverFolder('mysql');
    $socket = "$folder/socket";
    startServer(
        'mysql',
        ['mariadb-install-db', '--no-defaults', "--datadir=$folder/data", '--auth-root-authentication-method=normal', '--skip-test-db'],
        [$program, '--no-defaults', "--datadir=$folder/data", "--socket=$socket", "--pid-file=$folder/pid", '--skip-networking', '--innodb-buffer-pool-size=32M', '--innodb-flush-log-at-trx-commit=0', '--max-allowed-packet=32M'],
        static fn () => (new PDO("mysql:unix_socket=$socket", 'root', ''))->exec('CREATE DATABASE IF NOT EXISTS fleet'),
    );
    return $dsn = "mysql:unix_socket=$socket;dbname=fleet;charset=utf8mb4";
}

/** The DSN of a private PostgreSQL. */
function postgres(): string
{
    static $dsn = null;
    if ($dsn !== null) {
        return $dsn;
    }
    $found = glob('/usr/lib/postgresql/*/bin') ?: ['/usr/bin'];
    $program = first([end($found) . '/postgres'], 'PostgreSQL', 'postgresql');
    $folder = serverFolder('postgres');
    $next = "pgsql:host=$folder;dbname=postgres";
    startServer(
        'postgres',
        [dirname($program) . '/initdb', '-D', "$folder/data", '-A', 'trust', '-U', 'postgres', '-E', 'UTF8', '--locale=C', '--no-sync'],
        [$program, '-D', "$folder/data", '-k', $folder, '-c', 'listen_addresses=', '-c', 'fsync=off', '-c', 'shared_buffers=16MB'],
        static fn () => new PDO($next, 'postgres', ''),
    );
    return $dsn = $next;
}

/** The first of these programs that exists. */
function first(array $programs, string $name, string $package): string
{
    foreach ($programs as $program) {
        if (is_executable($program)) {
            return $program;
        }
    }
    throw new Skipped("there is no $name (Debian: $package)");
}
