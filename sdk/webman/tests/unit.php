<?php

// What needs no fleet: addresses and settings.

declare(strict_types=1);

use Streamfleet\Webman\Settings;

require dirname(__DIR__, 2) . '/php/tests/harness.php';
require dirname(__DIR__) . '/src/Settings.php';

/** What config() returns. */
final class Configuration
{
    /** @var array<string, mixed> */
    public static array $values = [];
}

function config(string $key, mixed $default = null): mixed
{
    return Configuration::$values[$key] ?? $default;
}

/** A connection with this host and these options, and what the file of the package has. */
function settings(string $host, array $options = [], array $own = []): Settings
{
    Configuration::$values = ['plugin.webman.redis-queue.redis' => ['default' => ['host' => $host, 'options' => $options]], 'plugin.streamfleet.webman.app' => $own];
    return Settings::of('default');
}

test('a_connection_says_where_redis_is', function (): void {
    $of = static fn (string $host, array $options = []): string => settings($host, $options)->address();
    same('redis://127.0.0.1:6379', $of('redis://127.0.0.1:6379'));
    same('redis://db:6379/3', $of('redis://db', ['db' => 3, 'auth' => '']));
    same('redis://:a%2Fb@db:1/2', $of('redis://db:1', ['database' => 2, 'db' => 9, 'auth' => 'a/b']));
    same('rediss://app:x@db:6379', $of('tls://db:6379', ['auth' => ['app', 'x']]));
    same('redis+unix:///run/redis.sock?db=1&pass=x', $of('unix:///run/redis.sock', ['db' => 1, 'auth' => 'x']));
});

test('queues_have_the_prefix_of_their_connection', function (): void {
    same(['send-mail', 'charge-card'], array_map(settings('redis://db')->queue(...), ['send-mail', 'Charge.Card']));
    same('shop_mail', settings('redis://db', ['prefix' => 'shop_'])->queue('mail'));
    thrown(Streamfleet\InvalidSubmission::class, static fn () => settings('redis://db')->queue('邮件'));
});

test('pauses_grow_with_the_failures', function (): void {
    same([5, 10, 5], [settings('x')->pause(1), settings('x')->pause(2), settings('x')->maxAttempts()]);
    same([0, 3], [settings('x', ['retry_seconds' => 0])->pause(3), settings('x', ['max_attempts' => '3'])->maxAttempts()]);
});

test('a_key_that_does_not_exist_is_refused', function (): void {
    settings('x', own: ['enable' => true]);
    same(true, Settings::isEnabled());
    contains("has a key 'enabled', which does not exist", thrown(InvalidArgumentException::class, static fn () => settings('x', own: ['enabled' => true]))->getMessage());
    Configuration::$values = [];
    same(false, Settings::isEnabled());
    contains('connection default not found', thrown(RuntimeException::class, static fn () => Settings::of('default'))->getMessage());
});
