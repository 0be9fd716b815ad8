<?php

declare(strict_types=1);

namespace Streamfleet\Hyperf;

use Streamfleet\Client;

/** The failed jobs of a queue, as dead letters have them. */
final class Letters
{
    /** How many are read at once, and how many at most. */
    private const PAGE = 100;
    private const MOST = 10_000;

    public function __construct(private readonly Client $client, private readonly string $key)
    {
    }

    /**
     * The newest first.
     *
     * @param ?string $job the class of the jobs, or `Class::method`; null for all
     * @return \Generator<string, array{job: string, error: string}> the id of each job → what it is, and why it failed
     */
    public function find(?string $job, int $limit): \Generator
    {
        for ($read = $found = 0, $last = '+'; $read < self::MOST && $found < $limit; $read += self::PAGE) {
            $entries = (array) $this->client->call(['XREVRANGE', $this->key, $last, '-', 'COUNT', (string) self::PAGE]);
            foreach ($entries as [$entry, $flat]) {
                $last = "($entry";
                $fields = array_column(array_chunk($flat, 2), 1, 0);
                if ($found < $limit && ($job === null || ($fields['h.job'] ?? null) === $job)) {
                    $found += 1;
                    yield (string) ($fields['dead_job'] ?? $fields['id'] ?? $entry) => ['job' => (string) ($fields['h.job'] ?? ''), 'error' => (string) ($fields['dead_error'] ?? '')];
                }
            }
            if (count($entries) < self::PAGE) {
                return;
            }
        }
    }
}
