<?php

declare(strict_types=1);

namespace Streamfleet\Hyperf;

use Hyperf\AsyncQueue\MessageInterface;
use Streamfleet\Inbox;
use Streamfleet\Outcome;

/** A job that the fleet has given to this program, until it is answered. */
final class Delivery
{
    private bool $isOpen = true;

    /**
     * @param array<string, mixed> $line the job, as the worker has sent it (docs/pools.md)
     * @param \Closure(string): MessageInterface $unpack
     */
    public function __construct(private readonly Inbox $inbox, private readonly array $line, private readonly \Closure $unpack)
    {
    }

    /** The attempt of the job that this is, beginning with 1. */
    public function attempt(): int
    {
        return max(1, (int) ($this->line['attempt'] ?? 1));
    }

    /**
     * The message, which may load models from a database.
     *
     * @throws \UnexpectedValueException if there is none, or it may not be unpacked
     */
    public function message(): MessageInterface
    {
        $base64 = $this->line['payload_base64'] ?? null;
        $message = ($this->unpack)($base64 === null ? (string) ($this->line['payload'] ?? '') : (string) base64_decode((string) $base64, true));
        // It counts its failures by being asked, as Hyperf's own driver asks it before each retry.
        for ($failures = 1; $failures < $this->attempt(); $failures++) {
            $message->attempts();
        }
        return $message;
    }

    public function id(): string
    {
        return (string) $this->line['id'];
    }

    /** Answers it; false if it has its answer. */
    public function settle(Outcome $outcome): bool
    {
        if (!$this->isOpen) {
            return false;
        }
        $this->isOpen = false;
        $this->inbox->answer((string) $this->line['ref'], $outcome);
        return true;
    }
}
