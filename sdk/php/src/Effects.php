<?php

declare(strict_types=1);

namespace Streamfleet;

/**
 * Does the work of a job in a database exactly once, however often the job runs: the work and the note that it is done, a row of the
 * table `streamfleet_effects`, are one transaction.
 */
final class Effects
{
    /** The longest result, as JSON. */
    private const MOST_RESULT_BYTES = 65536;
    private const STEP = '/\A[^\p{Cc}]{0,64}\z/u';
    private const PENDING = 'pending ';
    private const LATEST_NUMBER = '9223372036854775807';

    /**
     * Runs `$work` in a transaction of its own, and commits. If an attempt of this job has done so before, it returns the result of
     * that time and does not run `$work`. If `$work` throws, it rolls back.
     *
     * If the connection breaks during the commit, nobody knows whether the work is done. Let the exception pass: the job is retried,
     * and gets the result if it is.
     *
     * @param \PDO $db the connection on which `$work` does all that must happen once. It must not be in a transaction
     * @param Job $job the attempt that runs. All attempts and replays of a job share what is done
     * @param callable(\PDO): mixed $work gets the connection. What it returns must fit into 64 KiB of JSON
     * @param string $step which work of the job this is, if a handler has several; up to 64 characters, together with the name
     *   of the job's own step and a slash
     * @return mixed what `$work` returned, as JSON has it: objects are arrays, also the first time
     * @throws Superseded if a later attempt has done the work: this one should end
     * @throws \LogicException|\UnexpectedValueException if `once` is misused, or the result cannot be kept: nothing was committed
     * @throws \PDOException if the database refuses: nothing was committed, unless it was the commit that failed
     */
    public static function once(\PDO $db, Job $job, callable $work, string $step = ''): mixed
    {
        $driver = Sql::driver($db);
        $key = self::key($job, $step);
        $fence = self::fence($job);
        if ($db->inTransaction()) {
            throw new \LogicException('a transaction is open on this connection: commit it before Effects::once, which begins and commits its own');
        }
        // With SQLite, the INSERT takes the lock for writing, because it comes first.
        $db->beginTransaction();
        try {
            $before = self::begin($db, $driver, $key, $fence);
            $result = $before ?? self::work($db, $work, $key);
            $db->commit();
        } catch (\Throwable $error) {
            self::rollBack($db);
            throw $error;
        }
        return json_decode($result, true, 512, JSON_THROW_ON_ERROR | JSON_BIGINT_AS_STRING);
    }

    /**
     * Inserts the row, for which a second attempt waits until this one has ended.
     *
     * @param array{string, string, string} $key
     * @param array{int, int} $fence
     * @return ?string the result of an earlier attempt, as JSON; null if the row is new
     */
    private static function begin(\PDO $db, string $driver, array $key, array $fence): ?string
    {
        $isMysql = $driver === 'mysql';
        $pending = self::PENDING . bin2hex(random_bytes(16));
        $conflict = $isMysql ? 'ON DUPLICATE KEY UPDATE queue = queue' : 'ON CONFLICT (queue, job_id, step) DO NOTHING';
        $insert = "INSERT INTO streamfleet_effects (queue, job_id, step, fence_ms, fence_seq, result) VALUES (?, ?, ?, ?, ?, ?) $conflict";
        $isNew = Sql::run($db, $insert, [...$key, ...$fence, $pending], [5])->rowCount() === 1;
        // With MYSQL_ATTR_FOUND_ROWS, a row that was there counts too.
        if ($isNew && !$isMysql) {
            return null;
        }
        $select = 'SELECT result, CASE WHEN fence_ms > ? OR (fence_ms = ? AND fence_seq > ?) THEN 1 ELSE 0 END FROM streamfleet_effects '
            . 'WHERE queue = ? AND job_id = ? AND step = ?';
        $row = Sql::run($db, $select, [$fence[0], ...$fence, ...$key])->fetchAll(\PDO::FETCH_NUM)[0] ?? null;
        if ($row === null) {
            throw new \LogicException("the row of the job {$key[1]} in streamfleet_effects has gone: something deletes rows while jobs run");
        }
        $result = Sql::bytes($row[0]) ?? 'null';
        return $result === $pending ? null : self::before($result, (int) $row[1] === 1, $key[1]);
    }

    private static function before(string $result, bool $isNewer, string $id): string
    {
        if ($isNewer) {
            throw new Superseded("a later attempt of the job $id has done this already, so this attempt is outdated and should end");
        }
        if (str_starts_with($result, self::PENDING)) {
            throw new \LogicException("an attempt of the job $id has committed a part of its work on its own, and the rest is missing: see what is done, then delete its row in streamfleet_effects, or set its result");
        }
        return $result;
    }

    /** @param array{string, string, string} $key */
    private static function work(\PDO $db, callable $work, array $key): string
    {
        $result = self::encoded($work($db));
        // Otherwise the result would be committed without the work, or the work without the result.
        $update = 'UPDATE streamfleet_effects SET result = ? WHERE queue = ? AND job_id = ? AND step = ?';
        if (!$db->inTransaction() || Sql::run($db, $update, [$result, ...$key], [0])->rowCount() !== 1) {
            throw new \LogicException('the work has ended its transaction, so it may happen again: in Effects::once, do not commit, roll back, or change tables');
        }
        return $result;
    }

    private static function encoded(mixed $result): string
    {
        if ($result instanceof Outcome) {
            throw new \LogicException('the work has returned ' . $result::class . ', which would be committed: throw an exception to roll back, or return an outcome after Effects::once');
        }
        try {
            $json = Submission::json($result, 'what the work returned');
        } catch (InvalidSubmission $error) {
            throw new \UnexpectedValueException($error->getMessage(), 0, $error->getPrevious());
        }
        if (strlen($json) > self::MOST_RESULT_BYTES) {
            throw new \LengthException('what the work returned has ' . strlen($json) . ' bytes as JSON; at most ' . self::MOST_RESULT_BYTES . ' are kept, so return less');
        }
        return $json;
    }

    /** @return array{string, string, string} the primary key */
    private static function key(Job $job, string $step): array
    {
        // Each step of a job is a job of its own here, as for Idempotency-Key.
        $name = implode('/', array_filter([$job->step ?? '', $step], static fn (string $part): bool => $part !== ''));
        if (preg_match(self::STEP, $name) !== 1) {
            throw new \LogicException('a step must have at most 64 characters of UTF-8 without control characters, together with the name of the job\'s own step');
        }
        if ($job->id === '' || $job->queue === '') {
            throw new \LogicException('the job has no id or no queue, so nothing tells its work from that of others');
        }
        return [$job->queue, $job->id, $name];
    }

    /** @return array{int, int} the milliseconds and the number of the entry */
    private static function fence(Job $job): array
    {
        $fence = $job->field('fence');
        $isFence = is_string($fence) && preg_match('/\A(\d{1,19})-(\d{1,19})\z/', $fence, $parts) === 1;
        foreach ($isFence ? [$parts[1], $parts[2]] : [] as $number) {
            $isFence = $isFence && strcmp(str_pad($number, 19, '0', STR_PAD_LEFT), self::LATEST_NUMBER) <= 0;
        }
        if (!$isFence) {
            throw new \LogicException('the job has no fence such as 1700000000000-0, so nothing tells old attempts from new ones: its worker is too old, or a test has made it');
        }
        return [(int) $parts[1], (int) $parts[2]];
    }

    private static function rollBack(\PDO $db): void
    {
        try {
            if ($db->inTransaction()) {
                $db->rollBack();
            }
        } catch (\PDOException) {
            // The connection is gone, and the transaction with it. The caller gets the first error.
        }
    }
}
