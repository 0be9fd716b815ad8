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

    /** @param array<string, mixed> $line the job, as the worker has sent it (docs/pools.md) */
    public function __construct(private readonly Inbox $inbox, private readonly array $line, public readonly MessageInterface $message)
    {
        // The message counts its failures by being asked, as Hyperf's own driver asks it before each retry.
        for ($failures = 1; $failures < (int) ($line['attempt'] ?? 1); $failures++) {
            $message->attempts();
        }
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
