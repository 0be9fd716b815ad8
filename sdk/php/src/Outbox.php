<?php

declare(strict_types=1);

namespace Streamfleet;

/**
 * Submits jobs within a transaction of the application: a job is a row of the table `streamfleet_outbox`, which the fleet submits
 * after the commit. If the transaction is rolled back, there is no job.
 */
final class Outbox
{
    /** The most rows, and about the most bytes, of one statement. */
    private const ROWS = 500;
    private const BYTES = 1024 * 1024;
    private const COLUMNS = ['job_id', 'queue', 'lane', 'type', 'payload', 'encoding', 'headers', 'run_at_ms', 'options'];
    /** Fields of the entry that have columns of their own. */
    private const OWN = ['type' => 1, 'payload' => 1, 'encoding' => 1, 'id' => 1, 'delay_ms' => 1, 'run_at_ms' => 1];

    /**
     * Adds a job, and returns its id: that of the job, or a random one.
     *
     * @param \PDO $db the connection whose transaction the job belongs to
     * @param string|object $job the type of the job, a task (see Tasks), or a Submission. A delay counts from this call
     * @param mixed $payload anything that JSON can express, if `$job` is a type
     * @param bool $autocommit whether the connection may be in no transaction: the row is then committed at once
     * @param mixed ...$options the parameters of Submission, by name
     * @throws InvalidSubmission if the job breaks a rule
     * @throws \LogicException if no transaction is open
     */
    public static function add(\PDO $db, string|object $job, mixed $payload = null, bool $autocommit = false, mixed ...$options): string
    {
        if (is_object($job) && ($payload !== null || $job instanceof Submission && $options !== [])) {
            throw new \LogicException('a task has its own payload, and a submission its own options too: give them to it');
        }
        $submission = match (true) {
            is_string($job) => new Submission($job, $payload, ...$options),
            $job instanceof Submission => $job,
            default => Tasks::submission($job, $options),
        };
        return self::addAll($db, [$submission], $autocommit)[0];
    }

    /**
     * Adds many jobs in few statements, and returns their ids.
     *
     * @param iterable<Submission|object> $jobs submissions or tasks. The ids get the keys of an array; others are numbered
     * @param bool $autocommit whether the connection may be in no transaction: each statement is then committed on its own
     * @return array<int|string, string>
     * @throws InvalidSubmission|\LogicException as add. Roll back then: earlier jobs may have been added
     */
    public static function addAll(\PDO $db, iterable $jobs, bool $autocommit = false): array
    {
        Sql::driver($db);
        if (!$autocommit && !$db->inTransaction()) {
            throw new \LogicException('no transaction is open on this connection, so the job would be submitted whatever happens next: call beginTransaction before, or pass autocommit: true if that is meant');
        }
        $ids = $rows = [];
        $number = $bytes = 0;
        foreach ($jobs as $key => $job) {
            $row = self::row(Tasks::job($job));
            // A generator may yield a key twice.
            $ids[is_array($jobs) ? $key : $number++] = $row[0];
            $rows[] = $row;
            $bytes += array_sum(array_map(static fn (string|int|null $value): int => strlen((string) $value), $row));
            if (count($rows) >= self::ROWS || $bytes >= self::BYTES) {
                self::insert($db, $rows);
                $rows = [];
                $bytes = 0;
            }
        }
        self::insert($db, $rows);
        return $ids;
    }

    /** @param list<list<string|int|null>> $rows */
    private static function insert(\PDO $db, array $rows): void
    {
        if ($rows === []) {
            return;
        }
        $width = count(self::COLUMNS);
        $places = '(' . implode(', ', array_fill(0, $width, '?')) . ')';
        $sql = 'INSERT INTO streamfleet_outbox (' . implode(', ', self::COLUMNS) . ') VALUES ' . implode(', ', array_fill(0, count($rows), $places));
        $payload = (int) array_search('payload', self::COLUMNS, true);
        $payloads = array_map(static fn (int $row): int => $row * $width + $payload, array_keys($rows));
        Sql::run($db, $sql, array_merge(...$rows), $payloads);
    }

    /** @return list<string|int|null> the values of the columns */
    private static function row(Submission $job): array
    {
        if ($job->unique !== null) {
            throw new InvalidSubmission('a unique key is a lock, and the outbox cannot take it: submit this job with Streamfleet\Http or Streamfleet\Cli');
        }
        $fields = $job->fields();
        $headers = array_filter($fields, static fn (string $name): bool => str_starts_with($name, 'h.'), ARRAY_FILTER_USE_KEY);
        $names = array_map(static fn (string $name): string => substr($name, 2), array_keys($headers));
        // The row may wait, so a delay cannot count from its submission.
        $runAt = isset($fields['delay_ms']) ? (int) (microtime(true) * 1000) + (int) $fields['delay_ms'] : ($fields['run_at_ms'] ?? null);
        return [
            $job->id ?? bin2hex(random_bytes(16)),
            $job->queue ?? 'default',
            $job->lane === 'normal' ? null : $job->lane,
            $job->type,
            $job->bytes,
            $job->encoding,
            self::object(array_combine($names, $headers), 'a header'),
            $runAt === null ? null : (int) $runAt,
            self::object(array_diff_key($fields, self::OWN, $headers), 'an option'),
        ];
    }

    /** @param array<int|string, string> $texts */
    private static function object(array $texts, string $what): ?string
    {
        // A header may have a number as its name, which would make a list of the object.
        return $texts === [] ? null : Submission::json((object) $texts, $what);
    }
}
