<?php

// The quick start of README.md, with the application of the tests.

declare(strict_types=1);

require dirname(__DIR__, 2) . '/php/tests/harness.php';
require dirname(__DIR__, 2) . '/php/tests/program.php';
require __DIR__ . '/shop.php';

function block(string $name): string
{
    same(1, preg_match('/^<!-- \w+: ' . preg_quote($name, '/') . ' -->\n```\w+\n(.*?)^```$/ms', file_get_contents(dirname(__DIR__) . '/README.md'), $found), "a block $name");
    return rtrim($found[1]);
}

/** What a diff changes: what was there, and what is there now. */
function change(string $diff): array
{
    $side = static fn (string $others): string => implode("\n", array_map(static fn (string $line): string => substr($line, 1), preg_grep("/^[$others]/", explode("\n", $diff))));
    return [$side(' -'), $side(' +')];
}

test('the_quick_start_runs_a_job', function (): void {
    [$before, $after] = change(block('config'));
    $shop = new Shop('Hyperf\AsyncQueue\Driver\RedisDriver::class', [$before => $after]);
    same('php bin/hyperf.php start', block('start'));
    $shop->whileWorking(static function () use ($shop): void {
        $shop->eval(block('push'));
        $shop->await('mailed ann@example.com');
    });
    same(0, redis('EXISTS', '{queue}:waiting'));
});

test('the_configuration_is_what_the_driver_takes', function (): void {
    $shown = (eval('return [' . block('config_keys') . '];'))['streamfleet'];
    require_once dirname(__DIR__) . '/src/Settings.php';
    same((new ReflectionClassConstant(Streamfleet\Hyperf\Settings::class, 'OWN'))->getValue(), $shown);
});

test('composer_installs_both_packages', function (): void {
    if (trim((string) shell_exec('command -v composer')) === '') {
        throw new Skipped('there is no composer (Debian: composer)');
    }
    $parent = folder();
    mkdir("$parent/shop");
    symlink(dirname(__DIR__, 3), "$parent/streamfleet");
    // Packages of Hyperf that are not there cannot be asked for.
    $provided = ['hyperf/async-queue', 'hyperf/command', 'hyperf/process', 'hyperf/redis'];
    file_put_contents("$parent/shop/composer.json", json_encode(['name' => 'acme/shop', 'provide' => array_fill_keys($provided, '3.2'), 'repositories' => [['packagist.org' => false]]]));
    $environment = ['COMPOSER_HOME' => "$parent/composer", 'COMPOSER_DISABLE_NETWORK' => '1', 'COMPOSER_ALLOW_SUPERUSER' => '1'] + getenv();
    $process = proc_open(['sh', '-e', '-c', block('composer')], [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes, "$parent/shop", $environment);
    $output = stream_get_contents($pipes[1]);
    same(0, proc_close($process), $output);
    same(true, is_file("$parent/shop/vendor/streamfleet/hyperf/src/StreamfleetDriver.php"));
    contains('ConfigProvider', file_get_contents("$parent/shop/vendor/composer/installed.json"));
});

test('check_is_what_runs_this', function (): void {
    same('./check.sh', block('check'));
    same(true, is_executable(dirname(__DIR__) . '/check.sh'));
});
