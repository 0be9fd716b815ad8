<?php

// What the application does: it dispatches messages in the ways that Symfony's documentation shows.

declare(strict_types=1);

use App\Kernel;
use App\Message\{Charge, Half, Wrong, Order, Welcome};
use Symfony\Component\Messenger\Stamp\DelayStamp;

require __DIR__ . '/autoload.php';
$kernel = new Kernel('prod', false);
$kernel->boot();
$bus = $kernel->getContainer()->get('messenger.default_bus');
if (($argv[1] ?? '') !== '') {
    for ($n = 0; $n < (int) ($argv[2] ?? 1); $n++) {
        $class = "App\\Message\\{$argv[1]}";
        $bus->dispatch(new $class("n$n", (int) ($argv[3] ?? 1)));
    }
    exit;
}
App\Notes::add('dispatched');
$bus->dispatch(new Welcome('ann'));
$bus->dispatch(new Welcome('later'), [new DelayStamp(1500)]);
$bus->dispatch(new Order('on the other transport'));
$bus->dispatch(new Charge('visa', 3));
$bus->dispatch(new Charge('master', 9));
$bus->dispatch(new Half('cake', 2));
$bus->dispatch(new Wrong('bob'));
