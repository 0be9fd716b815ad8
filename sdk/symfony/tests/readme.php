<?php

// The quick start of README.md, with the application of the tests.

declare(strict_types=1);

use Streamfleet\Messenger\Connection;

require dirname(__DIR__, 2) . '/php/tests/harness.php';
require dirname(__DIR__, 2) . '/php/tests/program.php';
require __DIR__ . '/shop.php';
require __DIR__ . '/app/autoload.php';

function block(string $name): string
{
    same(1, preg_match('/^<!-- \w+: ' . preg_quote($name, '/') . ' -->\n```\w+\n(.*?)^```$/ms', file_get_contents(dirname(__DIR__) . '/README.md'), $found), "a block $name");
    return trim($found[1]);
}

test('the_quick_start_handles_a_message', function (): void {
    [$variable, $dsn] = explode('=', block('.env'), 2);
    same('MESSENGER_TRANSPORT_DSN', $variable);
    $shop = new Shop('streamfleet', ['processes' => 1], str_replace('6379', (string) redisServer(), $dsn));
    same('php bin/console messenger:consume async', block('consume'));
    $worker = $shop->start(['async']);
    try {
        $shop->eval('use App\Message\Welcome; ' . block('dispatch'));
        $shop->await(static fn (array $notes): bool => in_array('welcomed first', $notes, true), 'the message');
    } finally {
        $worker->stop();
    }
    same([Streamfleet\Messenger\StreamfleetBundle::class => ['all' => true]], eval('return [' . block('bundle') . '];'));
});

test('the_options_are_what_a_connection_takes', function (): void {
    preg_match_all('/^\| `(\w+)` \| `?(\w+)`? \| /m', file_get_contents(dirname(__DIR__) . '/README.md'), $found);
    $known = (new ReflectionClassConstant(Connection::class, 'DEFAULTS'))->getValue();
    $shown = array_map(static fn (string $value): mixed => $value === 'none' ? null : (is_numeric($value) ? (int) $value : $value), array_combine($found[1], $found[2]));
    ksort($known);
    ksort($shown);
    same($known, $shown);
});

test('composer_installs_both_packages', function (): void {
    if (trim((string) shell_exec('command -v composer')) === '') {
        throw new Skipped('there is no composer (Debian: composer)');
    }
    $parent = folder();
    mkdir("$parent/shop");
    symlink(dirname(__DIR__, 3), "$parent/streamfleet");
    // Packages of Symfony that are not there cannot be asked for.
    $provided = ['symfony/dependency-injection', 'symfony/http-kernel', 'symfony/messenger'];
    file_put_contents("$parent/shop/composer.json", json_encode(['name' => 'acme/shop', 'provide' => array_fill_keys($provided, '5.4.53'), 'repositories' => [['packagist.org' => false]]]));
    $environment = ['COMPOSER_HOME' => "$parent/composer", 'COMPOSER_DISABLE_NETWORK' => '1', 'COMPOSER_ALLOW_SUPERUSER' => '1'] + getenv();
    $process = proc_open(['sh', '-e', '-c', block('composer')], [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes, "$parent/shop", $environment);
    $output = stream_get_contents($pipes[1]);
    same(0, proc_close($process), $output);
    same(true, is_file("$parent/shop/vendor/streamfleet/messenger/src/StreamfleetTransport.php"));
});

test('check_is_what_runs_this', function (): void {
    same('./check.sh', block('check'));
    same(true, is_executable(dirname(__DIR__) . '/check.sh'));
});
