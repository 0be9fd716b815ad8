<?php

// What the application does: it dispatches jobs in all ways that Laravel's documentation shows.

declare(strict_types=1);

use App\Jobs\{ChargeCard, ProcessPodcast, Release, Secret, Slow};
use App\OrderShipped;
use Illuminate\Bus\Batch;
use Illuminate\Bus\UniqueLock;
use Illuminate\Support\Facades\{Bus, DB, Mail};

$app = require __DIR__ . '/bootstrap.php';
$queued = 0;
$app['events']->listen(Illuminate\Queue\Events\JobQueued::class, static function () use (&$queued): void {
    $queued += 1;
});

DB::table('notes')->insert(['what' => 'dispatched', 'at' => microtime(true)]);
ProcessPodcast::dispatch('at once');
Bus::dispatch((new ProcessPodcast('later'))->delay(2));
Bus::dispatch((new ProcessPodcast('by date'))->delay(Illuminate\Support\Carbon::now()->addSeconds(1)));
Bus::dispatch((new ProcessPodcast('on another queue'))->onQueue('high'));
Mail::to('ann@example.com')->queue(new OrderShipped(7));
ChargeCard::dispatch('visa', 3);
ChargeCard::dispatch('master', 9);
Release::dispatch();
Slow::dispatch();
Bus::dispatch((new ProcessPodcast('chain 1'))->chain([(new ProcessPodcast('chain 2'))->onQueue('high'), new ProcessPodcast('chain 3')]));
Bus::batch([new ProcessPodcast('batch 1'), new ProcessPodcast('batch 2')])->then(static function (Batch $batch): void {
    DB::table('notes')->insert(['what' => "batch of {$batch->totalJobs} done", 'at' => microtime(true)]);
})->dispatch();
// As PendingDispatch of laravel/framework does, before it dispatches a job.
foreach (['first', 'second'] as $secret) {
    $job = new Secret($secret);
    if ((new UniqueLock($app['cache.store']))->acquire($job)) {
        Bus::dispatch($job);
    }
}
$app['queue']->push(static function (): void {
    DB::table('notes')->insert(['what' => 'closure', 'at' => microtime(true)]);
});
foreach (['rolled back' => false, 'committed' => true] as $name => $isCommitted) {
    DB::beginTransaction();
    Bus::dispatch((new ProcessPodcast($name))->afterCommit());
    $isCommitted ? DB::commit() : DB::rollBack();
}
echo $queued;
