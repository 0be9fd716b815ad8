<?php

declare(strict_types=1);

namespace Streamfleet\Testing;

use Streamfleet\Status;
use Streamfleet\Submission;
use Streamfleet\Submitter;
use Streamfleet\Tasks;

/** A producer for tests: it checks jobs as a real one does, keeps them, and submits nothing. */
final class Fake implements Submitter
{
    use Assertions;

    /** @var array<string, Submission> id → job */
    private array $jobs = [];
    private int $number = 0;

    public function enqueue(string $type, mixed $payload = null, mixed ...$options): string
    {
        return $this->submit(new Submission($type, $payload, ...$options));
    }

    public function dispatch(object $task, mixed ...$options): string
    {
        return $this->submit(Tasks::submission($task, $options));
    }

    public function submit(Submission $job): string
    {
        $id = $job->id ?? 'fake-' . ++$this->number;
        $this->jobs[$id] ??= $job;
        return $id;
    }

    public function enqueueMany(iterable $jobs): array
    {
        $ids = [];
        foreach ($jobs as $key => $job) {
            $id = $this->submit(Tasks::job($job));
            if (is_array($jobs)) {
                $ids[$key] = $id;
            } else {
                $ids[] = $id;
            }
        }
        return $ids;
    }

    /** A job that was submitted waits for ever. */
    public function status(string $id, ?string $queue = null): ?Status
    {
        return isset($this->jobs[$id]) ? Status::tested($id, 'waiting', $this->jobs[$id]->type, null, null) : null;
    }

    public function result(string $id, ?string $queue = null): mixed
    {
        return null;
    }

    public function wait(string $id, int|float $seconds, ?string $queue = null): ?Status
    {
        return null;
    }

    /** @return array<string, Submission> all jobs that were submitted: id → job. One whose id was known is not there again */
    public function jobs(): array
    {
        return $this->jobs;
    }
}
