<?php

declare(strict_types=1);

namespace Streamfleet;

/** One attempt of a job, as a handler sees it. */
final class Job
{
    /** The shortest time between two reports of progress; the worker stores about two per second. */
    private const PROGRESS_NS = 100_000_000;

    /** What the line has beyond the properties, such as `fence` and `traceparent`. */
    private readonly array $fields;
    private readonly int $deadlineNs;
    private int $reportedNs = 0;
    private ?string $unsent = null;

    /**
     * @param string $id its id, which is the same for all attempts: use it as an idempotency key
     * @param int $attempt which attempt this is, from 1
     * @param array<string, string> $headers its headers
     * @param mixed $payload what the producer sent: JSON as PHP values with objects as arrays, or other bytes as a string.
     *   Integers beyond 64 bits are strings
     * @param string $encoding how the payload is encoded in Redis: `json`, `msgpack` or `raw`
     * @param ?int $createdMs when the job was accepted, in milliseconds since 1970
     * @param ?string $step the step, if the job is made of steps; field('step_kind') is `once` or `auto`
     * @param ?string $batch its batch, if it is in one
     */
    private function __construct(
        private readonly Channel $channel,
        /** @internal */
        public readonly string $ref,
        public readonly string $id,
        public readonly string $type,
        public readonly string $queue,
        public readonly int $attempt,
        public readonly ?int $maxAttempts,
        public readonly ?int $createdMs,
        public readonly array $headers,
        public readonly mixed $payload,
        public readonly string $encoding,
        public readonly ?string $step,
        public readonly ?string $batch,
        ?int $timeoutMs,
        array $fields,
    ) {
        $this->deadlineNs = $timeoutMs === null ? PHP_INT_MAX : hrtime(true) + $timeoutMs * 1_000_000;
        $this->fields = $fields;
    }

    /**
     * @internal
     * @param array<string, mixed> $line a `job` line
     */
    public static function of(array $line, Channel $channel): self
    {
        $payload = $line['payload'] ?? null;
        if (isset($line['payload_base64'])) {
            $payload = base64_decode((string) $line['payload_base64'], true);
            // A job that was submitted without a payload.
            $payload = $payload === '' && ($line['encoding'] ?? 'json') === 'json' ? null : $payload;
        }
        $text = static fn (string $name): ?string => isset($line[$name]) ? (string) $line[$name] : null;
        $number = static fn (string $name): ?int => isset($line[$name]) ? (int) $line[$name] : null;
        return new self(
            $channel,
            (string) $line['ref'],
            $text('id') ?? '',
            $text('job_type') ?? '',
            $text('queue') ?? '',
            $number('attempt') ?? 1,
            $number('max_attempts'),
            $number('created_ms'),
            is_array($line['headers'] ?? null) ? $line['headers'] : [],
            $payload,
            $text('encoding') ?? 'json',
            $text('step'),
            $text('batch'),
            $number('timeout_ms'),
            array_diff_key($line, ['type' => 1, 'ref' => 1, 'payload' => 1, 'payload_base64' => 1]),
        );
    }

    /** A further field of the line, such as `fence` or `traceparent`; null if it has none. */
    public function field(string $name): mixed
    {
        return $this->fields[$name] ?? null;
    }

    /**
     * The result of a step that this one comes after, as `after` of the configuration says; null if it returned nothing, or more
     * than is kept (16 KiB), or if a person decided that it is done and named no result. Throw if you need one and it is null.
     */
    public function stepResult(string $step): mixed
    {
        return Status::plain($this->fields['results'][$step] ?? null);
    }

    /** Reports how far the job is. Reports that follow each other quickly are merged; the last one always counts. */
    public function progress(float $percent, string $message = ''): void
    {
        $line = ['type' => 'progress', 'ref' => $this->ref, 'percent' => is_nan($percent) ? 0.0 : round(max(0.0, min(100.0, $percent)), 2)];
        if ($message !== '') {
            $line['message'] = Pipe::cut($message);
        }
        $this->unsent = Pipe::encode($line);
        $now = hrtime(true);
        if ($now - $this->reportedNs >= self::PROGRESS_NS) {
            $this->reportedNs = $now;
            $this->channel->send($this->flush());
        }
    }

    /**
     * Writes a line to the log of the job.
     *
     * @param string $level debug, info, warn or error, or a level of PSR-3
     * @param array<string, mixed> $fields
     */
    public function log(string $level, string|\Stringable $message, array $fields = []): void
    {
        $level = match (strtolower($level)) {
            'debug' => 'debug',
            'warn', 'warning' => 'warn',
            'error', 'critical', 'alert', 'emergency' => 'error',
            default => 'info',
        };
        $line = ['type' => 'log', 'ref' => $this->ref, 'level' => $level, 'message' => Pipe::cut((string) $message)];
        try {
            $text = Pipe::encode($fields === [] ? $line : $line + ['fields' => $fields]);
        } catch (\JsonException $error) {
            $text = Pipe::encode($line + ['fields' => ['unreadable' => $error->getMessage()]]);
        }
        $this->channel->send($text);
    }

    /**
     * Why the attempt should end soon: `cancelled` (by a person), `timeout`, `shutdown` or `lost`; null if it may go on.
     * A long job asks now and then.
     */
    public function cancelled(): ?string
    {
        return $this->channel->cancelled($this->ref);
    }

    /** How many seconds are left before the attempt times out; INF if there is no limit. */
    public function secondsLeft(): float
    {
        return $this->deadlineNs === PHP_INT_MAX ? INF : max(0.0, ($this->deadlineNs - hrtime(true)) / 1e9);
    }

    /** @internal The progress that has not been sent yet, as a line, or ''. */
    public function flush(): string
    {
        [$line, $this->unsent] = [$this->unsent ?? '', null];
        return $line;
    }
}
