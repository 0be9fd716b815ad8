<?php

// The quick start of README.md, with the application of the tests.

declare(strict_types=1);

require dirname(__DIR__, 2) . '/php/tests/harness.php';
require dirname(__DIR__, 2) . '/php/tests/program.php';
require __DIR__ . '/shop.php';

function block(string $name): string
{
    same(1, preg_match('/^<!-- \w+: ' . preg_quote($name, '/') . ' -->\n```\w+\n(.*?)^```$/ms', file_get_contents(dirname(__DIR__) . '/README.md'), $found), "a block $name");
    return trim($found[1]);
}

test('the_quick_start_runs_a_job', function (): void {
    same('QUEUE_CONNECTION=streamfleet', block('.env'));
    $shop = new Shop(explode('=', block('.env'))[1]);
    same('php artisan queue:work', block('work'));
    $shop->whileWorking([], static function () use ($shop): void {
        $shop->eval('use App\Jobs\ProcessPodcast; ' . block('dispatch'));
        $shop->awaitNotes(static fn (array $notes): bool => in_array('processed the first one on default, attempt 1', $notes, true), 'the job');
    });
});

test('the_configuration_is_what_the_connector_takes', function (): void {
    $shop = new Shop('streamfleet');
    $shown = json_decode($shop->eval('echo json_encode([' . block('config') . ']);'), true)['streamfleet'];
    $known = json_decode($shop->eval('echo json_encode((new ReflectionClassConstant(Streamfleet\Laravel\StreamfleetConnector::class, "DEFAULTS"))->getValue());'), true);
    unset($shown['driver']);
    same($known, $shown);
});

test('composer_installs_both_packages', function (): void {
    if (trim((string) shell_exec('command -v composer')) === '') {
        throw new Skipped('there is no composer (Debian: composer)');
    }
    $parent = folder();
    mkdir("$parent/shop");
    symlink(dirname(__DIR__, 3), "$parent/streamfleet");
    // Packages of Laravel that are not there cannot be asked for.
    $provided = ['illuminate/contracts', 'illuminate/queue', 'illuminate/redis', 'illuminate/support'];
    file_put_contents("$parent/shop/composer.json", json_encode(['name' => 'acme/shop', 'provide' => array_fill_keys($provided, '8.83'), 'repositories' => [['packagist.org' => false]]]));
    $environment = ['COMPOSER_HOME' => "$parent/composer", 'COMPOSER_DISABLE_NETWORK' => '1', 'COMPOSER_ALLOW_SUPERUSER' => '1'] + getenv();
    $process = proc_open(['sh', '-e', '-c', block('composer')], [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes, "$parent/shop", $environment);
    $output = stream_get_contents($pipes[1]);
    same(0, proc_close($process), $output);
    same(true, is_file("$parent/shop/vendor/streamfleet/laravel/src/StreamfleetQueue.php"));
    contains('StreamfleetServiceProvider', file_get_contents("$parent/shop/vendor/composer/installed.json"));
});

test('check_is_what_runs_this', function (): void {
    same('./check.sh', block('check'));
    same(true, is_executable(dirname(__DIR__) . '/check.sh'));
});
