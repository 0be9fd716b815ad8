<?php

declare(strict_types=1);

namespace Streamfleet\Messenger;

use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Stamp\NonSendableStampInterface;

/** Says which job of the program a message is. */
final class StreamfleetStamp implements NonSendableStampInterface
{
    /**
     * @param int $retries how often it has failed before
     * @param Envelope $received the message as it came
     */
    public function __construct(public readonly string $ref, public readonly int $retries, public readonly Envelope $received)
    {
    }
}
