<?php

declare(strict_types=1);

namespace Streamfleet\Testing;

use Streamfleet\Submission;

/** What tests say about the jobs that were submitted. With PHPUnit, each counts as an assertion. */
trait Assertions
{
    /** @return array<string, Submission> all jobs that were submitted */
    abstract public function jobs(): array;

    /**
     * The jobs of a type.
     *
     * @param array<string, mixed>|callable|null $which members that their payloads have, or a function of the Submission that
     *   returns true; null for all
     * @return array<string, Submission> id → job
     */
    public function jobsOf(string $type, array|callable|null $which = null): array
    {
        return array_filter($this->jobs(), static fn (Submission $job): bool => $job->type === $type && match (true) {
            $which === null => true,
            is_array($which) => self::has(json_decode($job->bytes, true, 512, JSON_BIGINT_AS_STRING), $which),
            default => (bool) $which($job),
        });
    }

    /**
     * That so many jobs of a type were submitted.
     *
     * @param array<string, mixed>|callable|null $which see jobsOf
     * @param ?int $times how many exactly; null for at least one
     */
    public function assertEnqueued(string $type, array|callable|null $which = null, ?int $times = null): void
    {
        $found = count($this->jobsOf($type, $which));
        $wanted = $times === null ? 'at least one job' : "$times jobs";
        self::check($times === null ? $found > 0 : $found === $times, "wanted $wanted '$type'" . self::described($which) . ", found $found. {$this->listed()}");
    }

    /** @param array<string, mixed>|callable|null $which see jobsOf */
    public function assertNotEnqueued(string $type, array|callable|null $which = null): void
    {
        $this->assertEnqueued($type, $which, 0);
    }

    public function assertNothingEnqueued(): void
    {
        self::check($this->jobs() === [], "wanted no job. {$this->listed()}");
    }

    private function listed(): string
    {
        $lines = array_map(static fn (Submission $job): string => "\n  {$job->type} {$job->bytes}", $this->jobs());
        return $lines === [] ? 'Nothing was submitted.' : 'Submitted:' . implode('', $lines);
    }

    /** @param array<string, mixed>|callable|null $which */
    private static function described(array|callable|null $which): string
    {
        return is_array($which) ? ' with ' . json_encode($which, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_PARTIAL_OUTPUT_ON_ERROR) : ($which === null ? '' : ' of those that the function accepts');
    }

    /**
     * Whether a payload has these members, at any depth.
     *
     * @param array<array-key, mixed> $wanted
     */
    private static function has(mixed $payload, array $wanted): bool
    {
        foreach ($wanted as $name => $value) {
            $isThere = is_array($payload) && array_key_exists($name, $payload);
            if (!$isThere || (is_array($value) && !array_is_list($value) ? !self::has($payload[$name], $value) : $payload[$name] !== $value)) {
                return false;
            }
        }
        return true;
    }

    private static function check(bool $holds, string $message): void
    {
        if (class_exists(\PHPUnit\Framework\Assert::class)) {
            \PHPUnit\Framework\Assert::assertTrue($holds, $message);
        } elseif (!$holds) {
            throw new \AssertionError($message);
        }
    }
}
