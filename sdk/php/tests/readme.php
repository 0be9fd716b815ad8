<?php

// Every code block of README.md is run, and those of the project's pages that are for PHP. A comment before each says how.

declare(strict_types=1);

require __DIR__ . '/harness.php';
require __DIR__ . '/databases.php';
require __DIR__ . '/program.php';

/**
 * The blocks of README.md: what the comment says, and the code.
 *
 * @return list<array{string, string, string}> kind, name, code
 */
function blocks(): array
{
    $text = file_get_contents(dirname(__DIR__) . '/README.md');
    preg_match_all('/^<!-- (run|file|php): (\S+) -->\n```\w+\n(.*?)^```$/ms', $text, $found, PREG_SET_ORDER);
    same(preg_match_all('/^```\w+$/m', $text), count($found), 'blocks with a comment');
    return array_map(static fn (array $block): array => array_slice($block, 1), $found);
}

function code(string $kind, string $name): string
{
    $found = array_filter(blocks(), static fn (array $block): bool => $block[0] === $kind && $block[1] === $name);
    same(true, $found !== [], "a block $kind: $name");
    return implode("\n", array_column($found, 2));
}

/** The pages of the project with blocks for users of this package. */
const PAGES = ['README.md', 'docs/submit.md', 'docs/handlers-in-your-language.md'];

function page(string $page): string
{
    return file_get_contents(dirname(__DIR__, 3) . "/$page");
}

/** A block of one of the project's pages, which a comment names. */
function projectCode(string $name): string
{
    $text = implode("\n", array_map('page', PAGES));
    same(1, preg_match_all('/^<!-- run: php ' . preg_quote($name, '/') . ' -->\n```\w+\n(.*?)^```$/ms', $text, $found), "a block php $name");
    return $found[1][0];
}

/** Runs a command in a folder, and returns its output. */
function command(array $command, string $folder, array $environment = []): string
{
    $process = proc_open($command, [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes, $folder, $environment + getenv());
    $output = stream_get_contents($pipes[1]);
    same(0, proc_close($process), implode(' ', $command) . "\n$output");
    return $output;
}

/** The port of the Redis of the quick start: that of `streamfleet dev`, or without the program, that of the tests. */
function quickPort(): int
{
    static $port = null;
    return $port ??= (string) getenv('STREAMFLEET_BIN') === '' ? redisServer() : freePort();
}

/** The folder of the quick start: its files, with the port of its Redis, and the package beside it. */
function project(): string
{
    static $folder = null;
    if ($folder !== null) {
        return $folder;
    }
    $parent = folder();
    mkdir("$parent/mailer");
    symlink(dirname(__DIR__, 3), "$parent/streamfleet");
    foreach (blocks() as [$kind, $name, $code]) {
        if ($kind === 'file') {
            file_put_contents("$parent/mailer/$name", str_replace('6390', (string) quickPort(), $code));
        }
    }
    if (trim((string) shell_exec('command -v composer')) === '') {
        throw new Skipped('there is no composer (Debian: composer)');
    }
    $environment = ['COMPOSER_HOME' => "$parent/composer", 'COMPOSER_DISABLE_NETWORK' => '1', 'COMPOSER_ALLOW_SUPERUSER' => '1', 'COMPOSER_MIRROR_PATH_REPOS' => '1'];
    command(['sh', '-e', '-c', code('run', 'composer')], "$parent/mailer", $environment);
    return $folder = "$parent/mailer";
}

/** Runs a block of PHP, with what its chapter says is there. */
function php(string $code, string $before): string
{
    file_put_contents(project() . '/block.php', "<?php\nrequire 'vendor/autoload.php';\nrequire 'SendMail.php';\n$before\n$code");
    return command([PHP_BINARY, '-d', 'error_reporting=-1', '-d', 'display_errors=1', '-d', 'zend.assertions=1', 'block.php'], project(), ['PATH' => bin() . ':' . getenv('PATH'), 'STREAMFLEET__REDIS__URL' => 'redis://127.0.0.1:' . redisServer()]);
}

function aProducer(): string
{
    return '$redis = new Redis(); $redis->connect("127.0.0.1", ' . redisServer() . '); $producer = new Streamfleet\Producer($redis);';
}

/** A folder that has the program under its name, if there is one. */
function bin(): string
{
    $folder = folder();
    if ((string) getenv('STREAMFLEET_BIN') !== '') {
        symlink(realpath(getenv('STREAMFLEET_BIN')), "$folder/streamfleet");
    }
    return $folder;
}

test('the_packages_exist', function (): void {
    if (trim((string) shell_exec('command -v apt-get')) === '') {
        throw new Skipped('there is no apt-get');
    }
    preg_match_all('/apt-get install -y (.*)/', code('run', 'apt'), $packages);
    $packages = explode(' ', implode(' ', $packages[1]));
    $found = command(['apt-cache', 'show', '--no-all-versions', ...$packages], '/');
    foreach ($packages as $package) {
        contains("Package: $package\n", $found);
    }
});

test('the_quick_starts_bound_the_memory_of_a_job', function (): void {
    foreach ([code('file', 'streamfleet.toml'), page('README.md'), page('docs/coming-from-php.md')] as $text) {
        contains('command = ["php", "-d", "memory_limit=', $text);
    }
});

/** Starts the block that submits the job of the quick start. */
function submitted(string $folder): array
{
    $process = proc_open(['sh', '-e', '-c', code('run', 'submit')], [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes, $folder);
    return [$process, $pipes[1]];
}

test('the_quick_start_sends_a_mail', function (): void {
    if ((string) getenv('STREAMFLEET_BIN') === '') {
        throw new Skipped('STREAMFLEET_BIN does not name the program streamfleet');
    }
    $folder = project();
    $environment = ['PATH' => bin() . ':' . getenv('PATH'), 'STREAMFLEET__TELEMETRY__LISTEN' => '127.0.0.1:' . freePort()];
    $dev = proc_open(['sh', '-c', 'exec ' . str_replace('6390', (string) quickPort(), code('run', 'dev'))], [['file', '/dev/null', 'r'], ['file', "$folder/log", 'w'], ['file', "$folder/log", 'a']], $pipes, $folder, $environment + getenv());
    try {
        $output = '';
        eventually(static function () use ($folder, $dev, &$output): bool {
            if (!proc_get_status($dev)['running']) {
                throw new Exception('streamfleet dev ended: ' . file_get_contents("$folder/log"));
            }
            // Its Redis may not have started yet.
            [$submit, $pipe] = submitted($folder);
            $output = stream_get_contents($pipe);
            return proc_close($submit) === 0;
        }, 'the submission', 60.0);
        same("sent to ann@example.com\n", $output, (string) file_get_contents("$folder/log"));
    } finally {
        proc_terminate($dev, SIGINT);
        proc_close($dev);
    }
});

test('the_quick_start_works_with_a_worker_that_is_played', function (): void {
    if ((string) getenv('STREAMFLEET_BIN') !== '') {
        throw new Skipped('the quick start runs with the real program');
    }
    redis('FLUSHALL');
    $folder = project();
    @mkdir("$folder/.streamfleet");
    file_put_contents("$folder/.streamfleet/password", "secret\n");
    // The connection of the tests stays as it is.
    redis('CONFIG', 'SET', 'requirepass', 'secret');
    try {
        [$submit, $pipe] = submitted($folder);
        $entry = eventually(static fn (): array|false => entries('sf:{default}:jobs') ?: false, 'the submission');
        $program = Program::in($folder, 'worker.php');
        $answer = $program->answer('mail.send', json_decode(reset($entry)['payload'], true));
        redis('HSET', 'sf:{default}:job:' . key($entry), 'state', 'done', 'result', json_encode($answer['result']));
        $output = stream_get_contents($pipe);
        same(0, proc_close($submit), $output);
        same("sent to ann@example.com\n", $output);
    } finally {
        redis('CONFIG', 'SET', 'requirepass', '');
    }
});

test('jobs_are_submitted', function (): void {
    redis('FLUSHALL');
    php(code('php', 'producer'), aProducer());
    same([4, 1, 1], [redis('XLEN', 'sf:{default}:jobs'), redis('XLEN', 'sf:{default}:jobs:low'), redis('XLEN', 'sf:{default}:jobs:high')]);
});

test('the_example_of_codecs_encrypts', function (): void {
    redis('FLUSHALL');
    $key = str_repeat('k', 32);
    php("putenv('APP_KEYS=2026-11:" . base64_encode($key) . "');\n" . code('php', 'codecs'), aProducer());
    $fields = current(entries('sf:{default}:jobs'));
    same(['raw', 'json aes-256-gcm;key=2026-11'], [$fields['encoding'], $fields['h.codec']]);
    $codecs = new Streamfleet\Codecs(keys: new Streamfleet\Codecs\Keys(['2026-11' => $key]));
    same(['json', '{"to":"ann@example.com"}'], $codecs->decodePayload('mail.send', $fields['h.codec'], $fields['payload']));
});

test('the_status_is_shown', function (): void {
    redis('FLUSHALL');
    foreach (['done' => ['result', '[7]', 'int(7)'], 'dead' => ['error', 'no such user', 'dead: no such user']] as $state => [$field, $value, $shown]) {
        redis('HSET', "sf:{default}:job:$state", 'state', $state, $field, $value);
        contains($shown, php(code('php', 'status'), aProducer() . "\$id = '$state';"));
    }
    contains('not yet', php(str_replace('30', '0.1', code('php', 'status')), aProducer() . '$id = "none";'));
});

test('the_command_line_accepts_an_id_once', function (): void {
    if ((string) getenv('STREAMFLEET_BIN') === '') {
        throw new Skipped('STREAMFLEET_BIN does not name the program streamfleet');
    }
    redis('FLUSHALL');
    same("bool(true)\nbool(false)\n", php(code('php', 'cli'), ''));
    redis('XADD', 'sf:{default}:jobs', '*', 'type', 'mail.send');
    same('10', php(code('php', 'sweep') . 'echo 1, $cli->cancel(["type" => "mail.send"], "none is left");', '$cli = new Streamfleet\Cli();'));
});

test('the_http_api_accepts_an_id_once', function (): void {
    [$url, $token] = console();
    redis('FLUSHALL');
    same("bool(true)\nbool(false)\n", php('use Streamfleet\Submission; $token = ' . var_export($token, true) . ';' . str_replace('http://127.0.0.1:9470', $url, code('php', 'http')), ''));
    same(4, redis('XLEN', 'sf:{default}:jobs'));
    $producers = ['$http = new Streamfleet\Http(' . var_export($url, true) . ',' . var_export($token, true) . ');', '$http = new Streamfleet\Cli();'];
    foreach ($producers as $producer) {
        same('invoices-2026-11.0 invoices-2026-11.1', php('use Streamfleet\Submission;' . $producer . code('php', 'batch') . ' echo implode(" ", $ids);', ''));
    }
});

test('fakes_record_and_run_jobs', function (): void {
    php(code('php', 'fake'), 'final class SignUp { public function __construct(private readonly Streamfleet\Submitter $jobs) {} public function register(string $to): void { $this->jobs->enqueue("mail.send", ["to" => $to, "template" => "welcome"]); } }');
    same('', php(code('php', 'inline'), ''));
    contains('AssertionError', thrown(Exception::class, static fn () => php(str_replace("=== 'done'", "=== 'dead'", code('php', 'inline')), ''))->getMessage());
});

test('handlers_and_tasks_run', function (): void {
    $file = project() . '/blocks.php';
    file_put_contents($file, "<?php\nrequire 'vendor/autoload.php';\nrequire 'SendMail.php';\n\$worker = Streamfleet\\Worker::create();\n" . code('php', 'worker') . "\n\$worker->run();");
    $program = Program::in(dirname($file), 'blocks.php');
    $outcomes = array_map(static fn (int $order): string => $program->answer('order.pay', ['order' => $order])['outcome'], [1, 2, 3, 4, 5, 6]);
    same(['retry', 'snooze', 'drop', 'retry', 'retry', 'done'], $outcomes);
    same('fatal', $program->answer('order.pay', [])['outcome']);
    same('sent 1 to ann', $program->answer('mail.welcome', ['to' => 'ann'])['result']);
    same(['printed', null], [$program->answer('letter.print')['result'], $program->answer('letter.post')['result'] ?? null]);
    same('mailed R-7', $program->answer('gift.send', null, ['step' => 'mail', 'results' => ['charge' => $program->answer('gift.send', null, ['step' => 'charge'])['result']]])['result']);
    contains('order.pay job-7: the payload has no order', $program->stderr());
});

/** A SQLite database with the tables of the fleet and of the examples, and the code that connects to it. */
function aDatabase(): array
{
    if (!in_array('sqlite', PDO::getAvailableDrivers(), true)) {
        throw new Skipped('PHP has no driver sqlite (Debian: php-sqlite3)');
    }
    $dsn = 'sqlite:' . folder() . '/db';
    $db = new PDO($dsn);
    createTables($db, 'sqlite');
    $db->exec('CREATE TABLE orders (number INTEGER)');
    return [$db, '$db = new PDO(' . var_export($dsn, true) . ');'];
}

test('an_effect_happens_once', function (): void {
    [$db, $connect] = aDatabase();
    file_put_contents(project() . '/effects.php', "<?php\nrequire 'vendor/autoload.php';\n\$worker = Streamfleet\\Worker::create();\n$connect\n" . code('php', 'effects') . "\n\$worker->run();");
    $program = Program::in(project(), 'effects.php');
    foreach (['17-0', '18-0'] as $fence) {
        $answer = $program->answer('order.charge', ['name' => 'ann', 'amount' => 5], ['id' => 'order-7', 'fence' => $fence]);
        same(['charged' => 5], $answer['result'] ?? null, json_encode($answer));
    }
    same([-5, 1], [$db->query("SELECT balance FROM accounts WHERE name = 'ann'")->fetchColumn(), $db->query('SELECT COUNT(*) FROM streamfleet_outbox')->fetchColumn()]);
});

test('jobs_are_added_to_the_outbox', function (): void {
    [$db, $connect] = aDatabase();
    same('', php(code('php', 'outbox'), $connect));
    same(['mail.send', 'invoice.send', 'stock.count'], $db->query('SELECT type FROM streamfleet_outbox ORDER BY seq')->fetchAll(PDO::FETCH_COLUMN));
});

test('types_share_a_named_pool', function (): void {
    if ((string) getenv('STREAMFLEET_BIN') === '') {
        throw new Skipped('STREAMFLEET_BIN does not name the program streamfleet');
    }
    $folder = folder();
    // The check starts the program and compares the types.
    file_put_contents("$folder/worker.php", '<?php require ' . var_export(dirname(__DIR__) . '/autoload.php', true) . ';
        Streamfleet\Worker::create()->on("order.pay", fn () => 1)->on("mail.welcome", fn () => 1)->run();');
    $worker = file_get_contents("$folder/worker.php");
    foreach (['pools.toml', 'errors.toml'] as $file) {
        file_put_contents("$folder/worker.php", str_replace('Worker::create()', 'Worker::create()' . ($file === 'errors.toml' ? '->on("mail.send", fn () => 1)' : ''), $worker));
        file_put_contents("$folder/streamfleet.toml", code('file', $file));
        command([realpath(getenv('STREAMFLEET_BIN')), 'config', 'check'], $folder, ['STREAMFLEET__REDIS__URL' => 'redis://127.0.0.1:' . redisServer()]);
    }
});

test('the_program_says_what_its_types_need', function (): void {
    file_put_contents(project() . '/described.php', "<?php\nrequire 'vendor/autoload.php';\nrequire 'SendMail.php';\n\$worker = Streamfleet\\Worker::create();\n" . code('php', 'worker') . "\n\$worker->run();");
    $told = json_decode(command(['sh', '-e', '-c', str_replace('worker.php', 'described.php', code('run', 'describe'))], project()), true);
    same(['max_attempts' => 4, 'timeout' => '30000ms'], $told['types']['mail.welcome']);
    same([], $told['types']['letter.print']);
});

test('tasks_are_dispatched', function (): void {
    redis('FLUSHALL');
    php(code('php', 'tasks'), aProducer());
    same(['{"to":"ann@example.com","copies":1}', '{"to":"bob@example.com","copies":2}'], array_slice(array_column(entries('sf:{default}:jobs'), 'payload'), 0, 2));
    same(4, redis('XLEN', 'sf:{default}:jobs'));
});

test('the_raw_submission_of_the_project_runs', function (): void {
    $predis = (string) getenv('STREAMFLEET_TEST_PREDIS') ?: '/usr/share/php/Predis/autoload.php';
    if (!is_file($predis)) {
        throw new Skipped('there is no Predis (Debian: php-predis)');
    }
    redis('FLUSHALL');
    // The raw forms bypass what the clients do with keys and values.
    php(projectCode('xadd'), 'require ' . var_export($predis, true) . ';
        $redis = new Redis(); $redis->connect("127.0.0.1", ' . redisServer() . ');
        $redis->setOption(Redis::OPT_PREFIX, "app:"); $redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_PHP);
        $client = new Predis\Client(["host" => "127.0.0.1", "port" => ' . redisServer() . '], ["prefix" => "app:"]);');
    $job = ['type' => 'mail.send', 'payload' => '{"to":"ann@example.com"}'];
    same([$job, $job], array_values(entries('sf:{default}:jobs')));
});

test('every_block_of_the_project_in_this_language_is_run', function (): void {
    $text = implode("\n", array_map('page', PAGES));
    preg_match_all('/^(?:<!-- (.*) -->\n)?```php$/m', $text, $found);
    same(['file: worker.php', 'file: submit.php', 'run: php xadd', 'run: php worker.php', 'run: php enqueue'], $found[1]);
});

test('the_quick_start_of_the_project_is_that_of_the_package', function (): void {
    preg_match_all('/^<!-- (run|file): (\S+) -->\n```\w+\n(.*?)^```$/ms', page('README.md'), $found, PREG_SET_ORDER);
    same(['composer', 'worker.php', 'streamfleet.toml', 'submit.php', 'dev', 'submit'], array_column($found, 2));
    foreach ($found as [, $kind, $name, $code]) {
        same(code($kind, $name), $code, "$kind: $name");
    }
});

test('the_example_of_the_project_runs', function (): void {
    if ((string) getenv('STREAMFLEET_BIN') === '') {
        throw new Skipped('STREAMFLEET_BIN does not name the program streamfleet');
    }
    redis('FLUSHALL');
    $folder = folder();
    symlink(project() . '/vendor', "$folder/vendor");
    file_put_contents("$folder/worker.php", projectCode('worker.php'));
    file_put_contents("$folder/streamfleet.toml", projectCode('streamfleet.toml') . "tracking = \"all\"\n");
    $environment = [
        'PATH' => bin() . ':' . getenv('PATH'),
        'STREAMFLEET__REDIS__URL' => 'redis://127.0.0.1:' . redisServer(),
        'STREAMFLEET__TELEMETRY__LISTEN' => '127.0.0.1:' . freePort(),
    ];
    $worker = proc_open(['streamfleet', 'worker'], [['file', '/dev/null', 'r'], ['file', "$folder/log", 'w'], ['file', "$folder/log", 'a']], $pipes, $folder, $environment + getenv());
    try {
        $output = php(projectCode('enqueue') . '; echo json_encode($producer->wait($id, 30)?->result());', aProducer());
        same('{"sent_to":"ann@example.com"}', $output, (string) file_get_contents("$folder/log"));
    } finally {
        proc_terminate($worker, SIGTERM);
        proc_close($worker);
    }
});

/** The first match of a pattern in the page for teams that come from other frameworks. */
function recipe(string $pattern): string
{
    same(1, preg_match($pattern, page('docs/coming-from-php.md'), $found), $pattern);
    return $found[1];
}

test('the_script_that_moves_a_live_queue_moves_a_job_that_is_pushed_again', function (): void {
    eval('namespace App\Job; final class ReportJob { public array $params = ["month" => 1]; }
        final class Message { public function job(): ReportJob { return new ReportJob(); } }');
    $message = serialize(new App\Job\Message());
    $redis = new class {
        public array $delayed = [];
        public bool $isBroken = false;

        public function zRange(): array
        {
            return $this->delayed;
        }

        public function zRem(string $key, string $message): void
        {
            if (!$this->isBroken) {
                unset($this->delayed[$message]);
            }
        }
    };
    $fleet = new class {
        public array $jobs = [];

        public function enqueue(string $type, mixed $payload, int $runAt, string $id): void
        {
            $this->jobs[$id] = [$type, $payload, $runAt];
        }
    };
    $code = preg_replace('/new Streamfleet\\\\Cli\(.*\);/', '$fleet;', recipe('/^```php\n(\$cli = .*?)^```$/ms'), 1, $count);
    same(1, $count);
    // A run that ends before it has taken the message away is repeated.
    foreach ([[1_800_000_000.0, true], [1_800_000_000.0, false], [1_800_003_600.0, false]] as [$due, $redis->isBroken]) {
        $redis->delayed = [$message => $due];
        eval($code);
    }
    same([[], ['report.build', 1_800_000_000], ['report.build', 1_800_003_600]], [$redis->delayed, ...array_map(static fn (array $job): array => [$job[0], $job[2]], array_values($fleet->jobs))]);
});

test('a_log_that_cannot_be_written_does_not_replace_the_exception_of_a_job', function (): void {
    $middleware = recipe('/^    ->(use\(static function \(Streamfleet\\\\Job.*?^    \}\))$/ms');
    $program = Program::start('function report(Throwable $error): void { throw new UnexpectedValueException("the log cannot be opened", 0, $error); }
        $worker->' . $middleware . '->on("pay", fn () => throw new UnknownError("the bank did not answer"))->run();');
    same(['outcome' => 'retry', 'unknown' => true, 'error' => 'the bank did not answer'], $program->answer('pay'));
});

test('check_is_what_runs_this', function (): void {
    same("./check.sh\n", code('run', 'check'));
    same(true, is_executable(dirname(__DIR__) . '/check.sh'));
});
