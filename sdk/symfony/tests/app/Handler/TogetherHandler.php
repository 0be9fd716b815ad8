<?php

declare(strict_types=1);

namespace App\Handler;

use App\Message\Together;
use App\Notes;
use Symfony\Component\Messenger\Attribute\AsMessageHandler;
use Symfony\Component\Messenger\Handler\Acknowledger;
use Symfony\Component\Messenger\Handler\BatchHandlerInterface;
use Symfony\Component\Messenger\Handler\BatchHandlerTrait;

/** Handles five messages at once, as Symfony's documentation has it. */
#[AsMessageHandler]
final class TogetherHandler implements BatchHandlerInterface
{
    use BatchHandlerTrait;

    public function __invoke(Together $message, ?Acknowledger $ack = null): mixed
    {
        return $this->handle($message, $ack);
    }

    /** @param list<array{Together, Acknowledger}> $jobs */
    private function process(array $jobs): void
    {
        Notes::add('together ' . count($jobs));
        foreach ($jobs as [, $ack]) {
            $ack->ack(true);
        }
    }

    private function shouldFlush(): bool
    {
        return count($this->jobs) >= 5;
    }
}
