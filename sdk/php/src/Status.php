<?php

declare(strict_types=1);

namespace Streamfleet;

/** What a job's record says. */
final class Status
{
    /** The fields of the record that other programs may read. */
    public const FIELDS = ['state', 'type', 'created_ms', 'result', 'error', 'progress', 'note'];

    /**
     * @param string $state `done`, `dead` and `cancelled` are final. Before that, it may lag behind: `running` is reliable
     *   only with streamfleet status
     * @param mixed $result the result of a success: JSON as PHP values. Integers beyond 64 bits are strings
     * @param ?string $error the last error, or why the job was cancelled; null after a success
     * @param ?int $percent the progress, from 0 to 100
     * @param ?string $note the message of the progress
     */
    private function __construct(
        public readonly string $id,
        public readonly string $state,
        public readonly string $type,
        public readonly ?int $createdMs,
        public readonly mixed $result,
        public readonly ?string $error,
        public readonly ?int $percent,
        public readonly ?string $note,
    ) {
    }

    /**
     * @internal
     * @param list<?string> $values those of FIELDS
     */
    public static function of(string $id, array $values): ?self
    {
        $value = array_combine(self::FIELDS, $values);
        if ($value['state'] === null) {
            return null;
        }
        return new self(
            $id,
            $value['state'],
            $value['type'] ?? '',
            $value['created_ms'] === null ? null : (int) $value['created_ms'],
            self::decoded($value['result']),
            $value['state'] === 'done' ? null : $value['error'],
            $value['progress'] === null ? null : (int) $value['progress'],
            $value['note'],
        );
    }

    /**
     * @internal
     * @param array<string, mixed> $told a job, as the HTTP API shows it
     */
    public static function told(array $told): self
    {
        $progress = $told['progress'] ?? null;
        return new self(
            (string) $told['id'],
            (string) $told['state'],
            (string) ($told['type'] ?? ''),
            isset($told['created_ms']) ? (int) $told['created_ms'] : null,
            self::plain($told['result'] ?? null),
            $told['state'] === 'done' ? null : $told['error'] ?? null,
            isset($progress['percent']) ? (int) $progress['percent'] : null,
            $progress['note'] ?? null,
        );
    }

    /** @internal A job that a test has run. */
    public static function tested(string $id, string $state, string $type, mixed $result, ?string $error): self
    {
        return new self($id, $state, $type, null, $result, $error, null, null);
    }

    public function isFinal(): bool
    {
        return in_array($this->state, ['done', 'dead', 'cancelled'], true);
    }

    /**
     * The result; null if the job has none, or none yet.
     *
     * @throws JobFailed if it is dead or cancelled
     */
    public function result(): mixed
    {
        if ($this->isFinal() && $this->state !== 'done') {
            throw new JobFailed("the job {$this->id} is {$this->state}: " . ($this->error ?? 'no error was recorded'));
        }
        return $this->result;
    }

    private static function decoded(?string $json): mixed
    {
        if ($json === null) {
            return null;
        }
        $result = json_decode($json, true, 4096, JSON_BIGINT_AS_STRING);
        if (json_last_error() !== JSON_ERROR_NONE) {
            return $json;
        }
        return self::plain($result);
    }

    /** @internal A result as its handler returned it. */
    public static function plain(mixed $result): mixed
    {
        // Bytes that are not text.
        $isBytes = is_array($result) && count($result) === 2 && ($result['encoding'] ?? null) === 'base64' && is_string($result['data'] ?? null);
        return $isBytes ? base64_decode($result['data']) : $result;
    }
}
