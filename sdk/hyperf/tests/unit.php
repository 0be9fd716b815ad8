<?php

// What needs no fleet: settings, addresses, and what may be in a job.

declare(strict_types=1);

use Streamfleet\Hyperf\{Packed, RedisAddress, Settings};

require dirname(__DIR__, 2) . '/php/tests/harness.php';
spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Streamfleet\\Hyperf\\')) {
        require dirname(__DIR__) . '/src/' . strtr(substr($class, strlen('Streamfleet\\Hyperf\\')), '\\', '/') . '.php';
    }
});

final class Inner
{
    private array $list = ['O:3:"Not":0:{}', 1.5, true, null, -3];
    protected ?Inner $next = null;
}

enum Kind: string
{
    case A = 'a';
}

test('a_channel_becomes_a_queue', function (): void {
    same(['queue', 'other-queue', 'mail_2', 'a'], array_map(Settings::queueOf(...), ['{queue}', '{other.queue}', 'Mail_2', ':a:']));
    thrown(Streamfleet\InvalidSubmission::class, static fn () => Settings::queueOf('{}'));
});

test('a_key_that_does_not_exist_is_refused', function (): void {
    contains("has a key streamfleet.'processes', which does not exist", thrown(InvalidArgumentException::class, static fn () => Settings::of(['streamfleet' => ['processes' => 2]]))->getMessage());
    $settings = Settings::of(['processes' => 0, 'concurrent' => ['limit' => '7'], 'streamfleet' => ['timeout' => '60']]);
    same([1, 7, 60, ['App\\'], 'default'], [$settings->processes, $settings->limit, $settings->timeout, $settings->classes, $settings->redis]);
});

test('pauses_follow_the_number_of_failures', function (): void {
    $of = static fn (mixed $retry): array => array_map(Settings::of(['retry_seconds' => $retry])->retrySeconds(...), [1, 2, 9]);
    same([[5, 5, 5], [1, 7, 7], [10, 10, 10], [10, 10, 10]], [$of(5), $of([1, 7]), $of([]), $of(null)]);
});

test('a_section_of_the_configuration_says_where_redis_is', function (): void {
    $of = RedisAddress::of(...);
    same('redis://localhost:6379', $of([]));
    same('redis://app:a%2Fb@db:1/2', $of(['host' => 'db', 'port' => 1, 'auth' => ['app', 'a/b'], 'db' => 2]));
    same('rediss://:x@db:6379', $of(['host' => 'tls://db', 'auth' => 'x']));
    same('redis+unix:///run/redis.sock?db=3&pass=x', $of(['host' => '/run/redis.sock', 'auth' => ['x'], 'db' => 3]));
    same('redis-cluster://:x@a:7000?node=b:7001', $of(['auth' => 'x', 'cluster' => ['enable' => true, 'seeds' => ['a:7000', 'b:7001']]]));
    same('redis-sentinel://a:26379/1?sentinelServiceName=main&node=b:26379', $of(['db' => 1, 'sentinel' => ['enable' => true, 'master_name' => 'main', 'nodes' => ['tcp://a:26379', 'b:26379', '']]]));
    contains('names none of their nodes', thrown(InvalidArgumentException::class, static fn () => $of(['cluster' => ['enable' => true]]))->getMessage());
});

test('all_classes_of_a_serialized_value_are_found', function (): void {
    same(['Inner', 'DateTimeImmutable', 'Kind', 'stdClass'], Packed::classes(serialize([new Inner(), ['x' => new DateTimeImmutable()], Kind::A, (object) ['a' => 'b";O:3:"Not":0:{}']])));
    same([], Packed::classes(serialize('O:5:"Inner":0:{}')));
    $shared = new stdClass();
    same(['stdClass'], Packed::classes(serialize([$shared, $shared])));
    foreach (['', 'x', 'O:5:"Inner"', 'C:11:"ArrayObject":0:{}', 'S:1:"a";', 'O:5:"Inner:0:{}', 'a:1:{i:0;O:99:"x":0:{}}'] as $broken) {
        same(true, $broken === '' || thrown(UnexpectedValueException::class, static fn () => Packed::classes($broken)) !== null, $broken);
    }
});
