<?php

// Jobs per second beside Laravel's Redis driver: the same Redis, the same jobs, the same number of PHP processes, one after the other.
// php bench.php [JOBS] [PROCESSES] [ROUNDS]

declare(strict_types=1);

require dirname(__DIR__, 2) . '/php/tests/harness.php';
require dirname(__DIR__, 2) . '/php/tests/program.php';
require __DIR__ . '/shop.php';

[$jobs, $processes, $rounds] = array_map(intval(...), array_slice($argv, 1) + [5000, 2, 3]);
const DRIVERS = ['redis', 'streamfleet', 'streamfleet with ahead 16'];
const KEYS = ['redis' => ['LLEN' => ['laravel_database_queues:default'], 'ZCARD' => ['laravel_database_queues:default:reserved']], 'streamfleet' => ['XLEN' => ['sf:{default}:jobs']]];

function left(string $driver): int
{
    $left = 0;
    foreach (KEYS[strtok($driver, ' ')] as $command => $keys) {
        $left += array_sum(array_map(static fn (string $key): int => (int) redis($command, $key), $keys));
    }
    return $left;
}

function rate(string $driver, int $jobs, int $processes): float
{
    $shop = new Shop(strtok($driver, ' '), null, $processes, ahead: str_ends_with($driver, '16') ? 16 : 0);
    $shop->dispatchMany('App\Jobs\Count', $jobs);
    same($jobs, left($driver));
    $workers = array_map(static fn (): Work => $shop->start(['--quiet']), range(1, $driver === 'redis' ? $processes : 1));
    // Without the start of the processes.
    $begun = eventually(static fn (): int|false => ($left = left($driver)) <= $jobs * 0.9 ? $left : false, 'the start', 60);
    $start = hrtime(true);
    while (left($driver) > 0) {
        usleep(2000);
    }
    $seconds = (hrtime(true) - $start) / 1e9;
    array_walk($workers, static fn (Work $worker) => $worker->stop());
    return $begun / $seconds;
}

$rates = [];
for ($round = 0; $round < $rounds; $round++) {
    foreach (DRIVERS as $driver) {
        $rates[$driver][] = rate($driver, $jobs, $processes);
    }
}
$median = array_map(static function (array $all): float {
    sort($all);
    return $all[intdiv(count($all), 2)];
}, $rates);
foreach (array_slice(DRIVERS, 1) as $driver) {
    printf("%d jobs, %d PHP processes, median of %d: Laravel's Redis driver %d jobs/s, %s %d jobs/s, ratio %.2f\n", $jobs, $processes, $rounds, $median['redis'], $driver, $median[$driver], $median[$driver] / $median['redis']);
}
