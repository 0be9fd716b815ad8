<?php

declare(strict_types=1);

namespace Streamfleet;

/**
 * Submits jobs by the program `streamfleet enqueue`, which offers what a plain XADD cannot: ids that are accepted once, unique
 * keys, a limit of the queue's depth, and durability. Each call starts the program, which takes some milliseconds.
 */
final class Cli
{
    private const EXIT_USAGE = 2;
    private const EXIT_NOT_FOUND = 4;
    private const EXIT_FULL = 7;
    private const EXIT_NOT_STARTED = [126, 127];
    /** How the errors of the program begin if it has sent nothing, and the job is not to blame. */
    private const NOTHING_SENT = '/\Aerror: (the configuration has|cannot reach redis) /';

    /**
     * @param list<string> $command the program and its global arguments, such as `--config`
     * @param array<string, string> $environment variables besides those of this process, such as `STREAMFLEET__REDIS__URL`
     */
    public function __construct(
        private readonly array $command = ['streamfleet'],
        private readonly string $queue = 'default',
        private readonly array $environment = [],
    ) {
    }

    /** Submits a job: see Submission for the options. */
    public function enqueue(string $type, mixed $payload = null, mixed ...$options): Accepted
    {
        return $this->submit(new Submission($type, $payload, ...$options));
    }

    /**
     * Submits a job that is described by an object.
     *
     * @param string|int|float|\DateInterval|null $idempotentFor for how long the id is remembered: seconds, or `24h`
     * @param ?string $durability `memory`, `replicas:N` or `aof`
     * @throws InvalidSubmission|Refused nothing was submitted
     * @throws Unconfirmed send the job again if it has an id
     */
    public function submit(Submission $job, string|int|float|\DateInterval|null $idempotentFor = null, ?string $durability = null): Accepted
    {
        $fields = $job->fields();
        if (isset($fields['batch']) || ($fields['tracking'] ?? 'all') !== 'all') {
            throw new InvalidSubmission('streamfleet enqueue has no batch, and no tracking but all: submit this job with Streamfleet\Producer');
        }
        if (($fields['encoding'] ?? null) === 'msgpack') {
            throw new InvalidSubmission('streamfleet enqueue takes JSON or raw bytes, and no MessagePack: submit this job with Streamfleet\Producer');
        }
        $options = [
            'queue' => $job->queue ?? $this->queue,
            'lane' => $job->lane,
            'encoding' => $fields['encoding'] ?? null,
            'id' => $job->id,
            'idempotent-for' => Time::lengthText($idempotentFor, 'idempotentFor'),
            'durability' => $durability,
            'delay' => isset($fields['delay_ms']) ? $fields['delay_ms'] . 'ms' : null,
            'at' => self::date($fields, 'run_at_ms'),
            'expires-at' => self::date($fields, 'expires_at_ms'),
            'max-attempts' => $fields['max_attempts'] ?? null,
            'timeout' => isset($fields['timeout_ms']) ? $fields['timeout_ms'] . 'ms' : null,
            'unique' => $job->unique,
            'unique-scope' => $job->uniqueScope,
            'unique-mode' => $job->uniqueMode,
            'on-success' => $fields['on_success'] ?? null,
            'on-failure' => $fields['on_failure'] ?? null,
            'then' => $fields['then'] ?? null,
            'traceparent' => $fields['traceparent'] ?? null,
        ];
        $arguments = ['enqueue', $job->type];
        if ($job->bytes !== '') {
            // By standard input, because an argument has at most 128 KiB.
            $arguments[] = '-';
        }
        foreach (array_filter($options, static fn (?string $value): bool => $value !== null) as $name => $value) {
            $arguments[] = "--$name=$value";
        }
        if (isset($fields['tracking'])) {
            $arguments[] = '--track';
        }
        foreach ($fields as $name => $value) {
            if (str_starts_with($name, 'h.')) {
                if (str_contains($name, '=')) {
                    throw new InvalidSubmission("streamfleet enqueue takes no header whose name has a '=': $name");
                }
                $arguments[] = '--header=' . substr($name, 2) . "=$value";
            }
        }
        $told = $this->run([...$arguments, '--output=json'], $job->bytes);
        $isDebounced = (bool) ($told['debounced'] ?? false);
        return new Accepted($told['id'], $told['state'], !$told['existing'] && !$isDebounced, $told['replaced'] ?? null, $isDebounced);
    }

    /**
     * Opens a batch: submits its members, and then, when all of them have succeeded, the job that follows. After an error, call it
     * again with the same members in the same order: no member is accepted twice.
     *
     * @param string $name its name, such as `invoices-2026-11`
     * @param iterable<Submission|object> $members submissions or tasks, all of one queue
     * @return list<string> their ids: `<name>.<number>`, unless a member has one
     * @throws InvalidSubmission|Refused nothing was submitted
     * @throws Unconfirmed some members may have been submitted: call it again
     */
    public function batch(string $name, iterable $members, object $follow): array
    {
        [$queue, $follow, $lines] = Submission::batch($members, $follow, $this->queue);
        $arguments = ['enqueue', '--bulk', "--queue=$queue", "--batch=$name", "--follow=$follow", '--output=json'];
        return $this->run($arguments, implode("\n", $lines))['ids'];
    }

    /**
     * Everything that is known about a job, as docs/cli-json.md describes it; null if no such job is known.
     *
     * @return ?array<string, mixed>
     */
    public function status(string $id, ?string $queue = null): ?array
    {
        return $this->run(['status', '--queue=' . ($queue ?? $this->queue), '--output=json', '--', $id], '');
    }

    /** Cancels all jobs of the queue that wait or are delayed, and returns how many. The audit has the reason. */
    public function purge(string $reason): int
    {
        $arguments = ['queues', 'purge', $this->queue, '--waiting', '--delayed', "--confirm={$this->queue}", "--reason=$reason", '--output=json'];
        return (int) ($this->run($arguments, '')['changed'] ?? 0);
    }

    /**
     * Cancels the jobs of the queue that fulfil all conditions, and returns how many. The audit has the reason.
     *
     * @param array<string, string> $where conditions as `streamfleet cancel --help` lists them: `['type' => 'mail.send', 'state' => 'scheduled']`
     */
    public function cancel(array $where, string $reason): int
    {
        return (int) ($this->change(['cancel'], $where, $reason)['changed'] ?? 0);
    }

    /**
     * Replays the dead letters of the queue that fulfil all conditions, and returns how many. The audit has the reason.
     *
     * @param array<string, string> $where conditions as `streamfleet dead replay --help` lists them: `['kind' => 'timeout']`
     */
    public function replayDead(array $where, string $reason): int
    {
        return (int) ($this->change(['dead', 'replay'], $where, $reason)['replayed'] ?? 0);
    }

    /**
     * Drops the dead letters of the queue that fulfil all conditions, and returns how many. The audit has the reason.
     *
     * @param array<string, string> $where conditions as `streamfleet dead drop --help` lists them
     */
    public function dropDead(array $where, string $reason): int
    {
        return (int) ($this->change(['dead', 'drop'], $where, $reason)['dropped'] ?? 0);
    }

    /**
     * @param list<string> $command
     * @param array<string, string> $where
     * @return ?array<string, mixed>
     */
    private function change(array $command, array $where, string $reason): ?array
    {
        return $this->run([...$command, ...$this->conditions($where), "--reason=$reason", '--yes', '--output=json'], '');
    }

    /**
     * @param array<string, string> $where
     * @return list<string>
     */
    private function conditions(array $where): array
    {
        return ["--queue={$this->queue}", ...array_map(static fn (string $name, string $value): string => "--$name=$value", array_keys($where), $where)];
    }

    /** @return ?array<string, mixed> */
    private function run(array $arguments, string $input): ?array
    {
        $errors = tmpfile();
        $process = proc_open([...$this->command, ...$arguments], [['pipe', 'r'], ['pipe', 'w'], $errors], $pipes, null, $this->environment + getenv());
        if ($process === false) {
            throw new Refused("the program {$this->command[0]} could not be started");
        }
        // If the program ends early, it says why on standard error.
        @fwrite($pipes[0], $input);
        fclose($pipes[0]);
        $output = stream_get_contents($pipes[1]);
        fclose($pipes[1]);
        $code = proc_close($process);
        rewind($errors);
        $error = trim((string) stream_get_contents($errors));
        $told = json_decode((string) $output, true, 512, JSON_BIGINT_AS_STRING);
        return match (true) {
            $code === 0 && is_array($told) => $told,
            // No such job, or no such queue.
            $code === self::EXIT_NOT_FOUND && in_array($arguments[0], ['status', 'cancel', 'dead'], true) => null,
            preg_match(self::NOTHING_SENT, $error) === 1 => throw new Refused($error),
            // Without what only helps somebody who has typed the command.
            $code === self::EXIT_USAGE => throw new InvalidSubmission(preg_split('/\n\n(Usage:|For more)/', $error)[0]),
            in_array($code, self::EXIT_NOT_STARTED, true) => throw new Refused("the program {$this->command[0]} could not be started"),
            $code === self::EXIT_FULL => throw new Refused($error),
            default => throw new Unconfirmed("{$this->command[0]} ended with code $code: $error"),
        };
    }

    /** @param array<string, string> $fields */
    private static function date(array $fields, string $name): ?string
    {
        return Time::dateText(isset($fields[$name]) ? (int) $fields[$name] : null);
    }
}
