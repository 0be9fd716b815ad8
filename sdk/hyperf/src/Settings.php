<?php

declare(strict_types=1);

namespace Streamfleet\Hyperf;

use Streamfleet\Submission;

/** What a section of `config/autoload/async_queue.php` says: Hyperf's own keys, and those below `streamfleet`. */
final class Settings
{
    /** The keys below `streamfleet`, and what they are without it. */
    private const OWN = ['namespace' => 'sf', 'program' => 'streamfleet', 'ahead' => 0, 'timeout' => null, 'classes' => ['App\\'], 'config' => null];
    private const RETRY_SECONDS = 10;

    /**
     * @param string $queue the queue of the fleet
     * @param string $redis which Redis of `config/autoload/redis.php`
     * @param int $limit how many jobs a program works on at once, if Swoole is loaded
     * @param int $maxMessages after how many jobs a program is replaced; 0 for never
     * @param int|list<int> $retrySeconds
     * @param ?int $timeout how long a job may run, in seconds
     * @param list<string> $classes what the names of classes in a job may begin with
     */
    private function __construct(
        public readonly string $queue,
        public readonly string $redis,
        public readonly int $processes,
        public readonly int $limit,
        public readonly int $maxMessages,
        private readonly int|array $retrySeconds,
        public readonly string $namespace,
        public readonly string $program,
        public readonly int $ahead,
        public readonly ?int $timeout,
        public readonly array $classes,
        public readonly ?string $config,
    ) {
    }

    /** @param array<string, mixed> $section */
    public static function of(array $section): self
    {
        $own = (array) ($section['streamfleet'] ?? []);
        $unknown = array_diff_key($own, self::OWN);
        if ($unknown !== []) {
            throw new \InvalidArgumentException("config/autoload/async_queue.php has a key streamfleet.'" . key($unknown) . "', which does not exist; there are " . implode(', ', array_keys(self::OWN)));
        }
        $own += self::OWN;
        $retry = $section['retry_seconds'] ?? self::RETRY_SECONDS;
        return new self(
            self::queueOf((string) ($section['channel'] ?? 'queue')),
            (string) ($section['redis']['pool'] ?? 'default'),
            max(1, (int) ($section['processes'] ?? 1)),
            max(1, (int) ($section['concurrent']['limit'] ?? 1)),
            max(0, (int) ($section['max_messages'] ?? 0)),
            is_array($retry) ? array_values(array_map(intval(...), $retry)) : (int) $retry,
            (string) $own['namespace'],
            (string) $own['program'],
            (int) $own['ahead'],
            $own['timeout'] === null ? null : (int) $own['timeout'],
            array_values(array_map(strval(...), (array) $own['classes'])),
            $own['config'] === null ? null : (string) $own['config'],
        );
    }

    /** The fleet's name of a channel: lower case, with `-` in place of what its names do not have. */
    public static function queueOf(string $channel): string
    {
        $name = trim((string) preg_replace('/[^a-z0-9_-]+/', '-', strtolower($channel)), '-_');
        return Submission::queue(substr($name, 0, 64));
    }

    /** How long a job rests after this many failures, in seconds. */
    public function retrySeconds(int $failures): int
    {
        if (!is_array($this->retrySeconds)) {
            return max(0, $this->retrySeconds);
        }
        $pauses = $this->retrySeconds === [] ? [self::RETRY_SECONDS] : $this->retrySeconds;
        return max(0, $pauses[min(max(1, $failures), count($pauses)) - 1]);
    }
}
