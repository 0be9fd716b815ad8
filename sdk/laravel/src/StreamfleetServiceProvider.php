<?php

declare(strict_types=1);

namespace Streamfleet\Laravel;

use Illuminate\Queue\Events\JobExceptionOccurred;
use Illuminate\Queue\QueueManager;
use Illuminate\Support\ServiceProvider;

/** Gives Laravel the queue connection `streamfleet`, so that `QUEUE_CONNECTION=streamfleet` is all that an application changes. */
final class StreamfleetServiceProvider extends ServiceProvider
{
    public function register(): void
    {
        $config = $this->app->make('config');
        $config->set('queue.connections.streamfleet', (array) $config->get('queue.connections.streamfleet') + ['driver' => 'streamfleet']);
        $this->callAfterResolving('queue', function (QueueManager $manager): void {
            $manager->addConnector('streamfleet', fn (): StreamfleetConnector => new StreamfleetConnector($this->app->make('redis'), $this->app->make('config')));
        });
    }

    public function boot(): void
    {
        // Laravel releases a job without saying why.
        $this->app->make('events')->listen(JobExceptionOccurred::class, static function (JobExceptionOccurred $event): void {
            if ($event->job instanceof StreamfleetJob) {
                $event->job->blame($event->exception);
            }
        });
    }
}
