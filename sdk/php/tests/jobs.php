<?php

// Attempts of jobs for tests of what handlers call.

declare(strict_types=1);

use Streamfleet\{Job, Worker};

/** An attempt of a job, as the line of a worker describes it. */
function aJob(string $id = 'order-7', ?string $fence = '17-0', ?string $step = null, string $queue = 'default'): Job
{
    $worker = (new ReflectionClass(Worker::class))->newInstanceWithoutConstructor();
    return Job::of(['ref' => '1', 'id' => $id, 'job_type' => 'pay', 'queue' => $queue, 'fence' => $fence, 'step' => $step], $worker);
}
