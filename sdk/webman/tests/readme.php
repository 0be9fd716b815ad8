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
    $shop = new Shop([$before => $after]);
    same('php start.php start', block('start'));
    $shop->whileWorking(static function () use ($shop): void {
        $shop->eval(block('send'));
        $shop->await('mailed tom@gmail.com: hello');
    });
    same(0, redis('EXISTS', '{redis-queue}-waitingsend-mail'));
});

test('the_configuration_is_what_the_package_installs', function (): void {
    $shown = eval(block('config_keys'));
    same(require dirname(__DIR__) . '/src/config/plugin/streamfleet/webman/app.php', $shown);
    require_once dirname(__DIR__) . '/src/Settings.php';
    same((new ReflectionClassConstant(Streamfleet\Webman\Settings::class, 'OWN'))->getValue(), $shown);
});

test('an_installation_keeps_the_configuration_that_is_there', function (): void {
    $shop = new Shop();
    $install = 'Streamfleet\Webman\Install::install(); $file = base_path() . "/config/plugin/streamfleet/webman/app.php";';
    same('1', $shop->eval("$install echo (int) (require \$file)['enable'];"));
    same('0', $shop->eval("Streamfleet\\Webman\\Install::uninstall(); $install echo (int) (require \$file)['enable'];"));
    same('gone', $shop->eval('Streamfleet\Webman\Install::uninstall(); echo is_dir(base_path() . "/config/plugin/streamfleet/webman") ? "there" : "gone";'));
});

test('composer_installs_both_packages', function (): void {
    if (trim((string) shell_exec('command -v composer')) === '') {
        throw new Skipped('there is no composer (Debian: composer)');
    }
    $parent = folder();
    mkdir("$parent/shop");
    symlink(dirname(__DIR__, 3), "$parent/streamfleet");
    // Packages of webman that are not there cannot be asked for.
    $provided = ['webman/redis-queue'];
    file_put_contents("$parent/shop/composer.json", json_encode(['name' => 'acme/shop', 'provide' => array_fill_keys($provided, '2.1'), 'repositories' => [['packagist.org' => false]]]));
    $environment = ['COMPOSER_HOME' => "$parent/composer", 'COMPOSER_DISABLE_NETWORK' => '1', 'COMPOSER_ALLOW_SUPERUSER' => '1'] + getenv();
    $process = proc_open(['sh', '-e', '-c', block('composer')], [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes, "$parent/shop", $environment);
    $output = stream_get_contents($pipes[1]);
    same(0, proc_close($process), $output);
    same(true, is_file("$parent/shop/vendor/streamfleet/webman/src/Client.php"));
    contains('src/replace.php', file_get_contents("$parent/shop/vendor/composer/installed.json"));
});

test('check_is_what_runs_this', function (): void {
    same('./check.sh', block('check'));
    same(true, is_executable(dirname(__DIR__) . '/check.sh'));
});
