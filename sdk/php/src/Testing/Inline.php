<?php

declare(strict_types=1);

namespace Streamfleet\Testing;

use Streamfleet\Channel;
use Streamfleet\Handlers;
use Streamfleet\Inbox;
use Streamfleet\Job;
use Streamfleet\Status;
use Streamfleet\Submission;
use Streamfleet\Submitter;
use Streamfleet\Tasks;

/**
 * Handlers without a fleet: a job runs when it is submitted, with middleware, rules for exceptions and events as in a pool, and
 * its outcome is kept. It has one attempt: nothing is retried, and nothing waits for its time.
 */
final class Inline extends Handlers implements Submitter
{
    use Assertions;

    /** @var array<string, Submission> id → job */
    private array $jobs = [];
    /** @var array<string, Trial> id → what became of it */
    private array $trials = [];
    private int $number = 0;

    /** @param object|callable|null $container makes handlers that are given as class names: see Worker::create */
    public function __construct(object|callable|null $container = null)
    {
        parent::__construct(self::makerOf($container));
        $this->noteFolders();
    }

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
        $id = $job->id ?? 'inline-' . ++$this->number;
        if (!isset($this->jobs[$id])) {
            $this->jobs[$id] = $job;
            $this->trials[$id] = $this->run($job, ['id' => $id]);
        }
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

    /**
     * Runs one attempt of a job, and does not keep it.
     *
     * @param array<string, mixed> $fields further fields of its line, such as `attempt`, `step` or `results` (docs/pools.md)
     */
    public function run(Submission $job, array $fields = []): Trial
    {
        $said = new class implements Channel {
            public string $lines = '';
            public ?string $cancel = null;

            public function send(string $lines): void
            {
                $this->lines .= $lines;
            }

            public function cancelled(string $ref): ?string
            {
                return $this->cancel;
            }
        };
        $said->cancel = $fields['cancelled'] ?? null;
        $handled = Job::of($fields + self::line($job), $said);
        $start = hrtime(true);
        [$outcome, $error] = $this->handle($handled, null);
        [$outcome, $answer] = Inbox::answerOf($handled->ref, $outcome);
        $this->tellEnd($handled, $outcome, $error, (hrtime(true) - $start) / 1e9);
        $this->clear($handled);
        $lines = array_map(static fn (string $line): array => json_decode($line, true, 512, JSON_BIGINT_AS_STRING), array_filter(explode("\n", $said->lines . $handled->flush() . $answer)));
        return new Trial($handled, $outcome, $error, array_values($lines));
    }

    /** What became of a job that was submitted. */
    public function trial(string $id): Trial
    {
        return $this->trials[$id] ?? throw new \OutOfBoundsException("no job '$id' was submitted");
    }

    /** @return array<string, Submission> all jobs that were submitted: id → job */
    public function jobs(): array
    {
        return $this->jobs;
    }

    public function status(string $id, ?string $queue = null): ?Status
    {
        $trial = $this->trials[$id] ?? null;
        return $trial === null ? null : Status::tested($id, $trial->state(), $trial->job->type, $trial->result(), $trial->error());
    }

    public function result(string $id, ?string $queue = null): mixed
    {
        return $this->status($id)?->result();
    }

    public function wait(string $id, int|float $seconds, ?string $queue = null): ?Status
    {
        $status = $this->status($id);
        return $status?->isFinal() ? $status : null;
    }

    /** The test sees the exception itself. */
    protected function report(string $text): void
    {
    }

    /** @return array<string, mixed> what a worker would write */
    private static function line(Submission $job): array
    {
        $fields = $job->fields();
        $headers = [];
        foreach ($fields as $name => $value) {
            if (str_starts_with((string) $name, 'h.')) {
                $headers[substr((string) $name, 2)] = $value;
            }
        }
        $encoding = $job->encoding ?? 'json';
        $line = [
            'ref' => '1', 'id' => 'inline', 'job_type' => $job->type, 'queue' => $job->queue ?? 'default', 'attempt' => 1,
            'max_attempts' => (int) ($fields['max_attempts'] ?? 1), 'timeout_ms' => isset($fields['timeout_ms']) ? (int) $fields['timeout_ms'] : null,
            'created_ms' => (int) (microtime(true) * 1000), 'fence' => '1-0', 'encoding' => $encoding, 'headers' => $headers,
            'traceparent' => $fields['traceparent'] ?? null, 'batch' => $fields['batch'] ?? null,
        ];
        return $line + ($encoding === 'json' ? ['payload' => json_decode($job->bytes, true, 4096, JSON_BIGINT_AS_STRING)] : ['payload_base64' => base64_encode($job->bytes)]);
    }
}
