<?php

// Messages per second beside Messenger's Redis transport: the same Redis, the same messages, the same number of PHP processes, one after
// the other. php bench.php [MESSAGES] [PROCESSES] [ROUNDS]

declare(strict_types=1);

require dirname(__DIR__, 2) . '/php/tests/harness.php';
require dirname(__DIR__, 2) . '/php/tests/program.php';
require __DIR__ . '/shop.php';

[$messages, $processes, $rounds] = array_map(intval(...), array_slice($argv, 1) + [5000, 2, 3]);

const TRANSPORTS = ['redis', 'streamfleet', 'streamfleet with ahead 16'];

function rate(string $transport, int $messages, int $processes): float
{
    $scheme = strtok($transport, ' ');
    $shop = new Shop($scheme, ['processes' => $processes, 'ahead' => str_ends_with($transport, '16') ? 16 : 0]);
    $shop->dispatch('Count', $messages);
    $left = static fn (): int => (int) redis('XLEN', $scheme === 'redis' ? 'messages' : 'sf:{async}:jobs');
    same($messages, $left());
    $one = static fn (int $n): Work => $shop->start(['async', '--quiet'], $scheme === 'redis' ? ['MESSENGER_TRANSPORT_DSN' => 'redis://127.0.0.1:' . redisServer() . "/messages/symfony/consumer$n?delete_after_ack=1"] : []);
    $workers = array_map($one, range(1, $scheme === 'redis' ? $processes : 1));
    // Without the start of the processes.
    $begun = eventually(static fn (): int|false => ($now = $left()) <= $messages * 0.9 ? $now : false, 'the start', 60);
    $start = hrtime(true);
    while ($left() > 0) {
        usleep(2000);
    }
    $seconds = (hrtime(true) - $start) / 1e9;
    array_walk($workers, static fn (Work $worker) => $worker->stop());
    return $begun / $seconds;
}

$rates = [];
for ($round = 0; $round < $rounds; $round++) {
    foreach (TRANSPORTS as $transport) {
        $rates[$transport][] = rate($transport, $messages, $processes);
    }
}
$median = array_map(static function (array $all): float {
    sort($all);
    return $all[intdiv(count($all), 2)];
}, $rates);
foreach (array_slice(TRANSPORTS, 1) as $transport) {
    printf("%d messages, %d PHP processes, median of %d: Messenger's Redis transport %d messages/s, %s %d messages/s, ratio %.2f\n", $messages, $processes, $rounds, $median['redis'], $transport, $median[$transport], $median[$transport] / $median['redis']);
}
