<?php

declare(strict_types=1);

namespace Streamfleet;

/** What submits jobs: a Producer over Redis, Http, or in tests Testing\Fake and Testing\Inline. Let your code ask for this. */
interface Submitter
{
    /**
     * Submits a job, and returns its id. Once it returns, the job is accepted.
     *
     * @param mixed ...$options the parameters of Submission, by name
     * @throws InvalidSubmission|Refused nothing was submitted
     * @throws Unconfirmed nobody knows whether it was
     */
    public function enqueue(string $type, mixed $payload = null, mixed ...$options): string;

    /** Submits a task: an object whose class has #[JobType]. Options take precedence over those of its class. */
    public function dispatch(object $task, mixed ...$options): string;

    /** Submits a job that is described by an object. */
    public function submit(Submission $job): string;

    /**
     * Submits many jobs, and returns their ids. They are no transaction.
     *
     * @param iterable<Submission|object> $jobs submissions or tasks. The ids get the keys of an array; others are numbered
     * @return array<int|string, string>
     * @throws BulkError which says what became of each job; jobs that it does not name were not sent
     */
    public function enqueueMany(iterable $jobs): array;

    /** What is known about a job; null if nothing is. */
    public function status(string $id, ?string $queue = null): ?Status;

    /**
     * The result of a job that is done; null if it has none, or none yet.
     *
     * @throws JobFailed if the job is dead or cancelled
     */
    public function result(string $id, ?string $queue = null): mixed;

    /** Waits until the job is done, dead or cancelled; null if it is not within this time. */
    public function wait(string $id, int|float $seconds, ?string $queue = null): ?Status;
}
