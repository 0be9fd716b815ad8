<?php

declare(strict_types=1);

namespace Streamfleet\Messenger;

use Streamfleet\Done;
use Streamfleet\Fatal;
use Streamfleet\Inbox;
use Streamfleet\Outcome;
use Streamfleet\Retry;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Exception\MessageDecodingFailedException;
use Symfony\Component\Messenger\Exception\TransportException;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\ErrorDetailsStamp;
use Symfony\Component\Messenger\Stamp\NonSendableStampInterface;
use Symfony\Component\Messenger\Stamp\RedeliveryStamp;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Transport\Receiver\MessageCountAwareInterface;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;

/** Messages are submitted by XADD. In a program of a pool, Messenger's own worker takes them from there, and answers. */
final class StreamfleetTransport implements MessageCountAwareInterface, TransportInterface
{
    /** How long `get` waits for a message before Messenger looks at its limits, in seconds. */
    private const WAIT = 1.0;
    /** Stamps that say that a message comes again, which the fleet knows by itself. */
    private const OF_RETRIES = [DelayStamp::class, RedeliveryStamp::class, ErrorDetailsStamp::class];

    /** @var array<string, int|bool> the messages that run → after how many milliseconds they come again, or whether they were sent again */
    private array $running = [];

    /** @param \Closure(Connection): never $becomeWorker */
    public function __construct(
        private readonly Connection $connection,
        private readonly SerializerInterface $serializer,
        private readonly \Closure $becomeWorker,
    ) {
    }

    public function send(Envelope $envelope): Envelope
    {
        $delay = $envelope->last(DelayStamp::class)?->getDelay() ?? 0;
        $again = $this->again($envelope);
        if ($again !== null && self::count($envelope) === self::count($again->received)) {
            // The job itself comes again: so it is neither lost nor there twice, whatever dies now.
            $this->running[$again->ref] = $delay;
            return $envelope;
        }
        try {
            $payload = json_encode($this->serializer->encode($envelope), JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE);
            $id = $this->connection->add($payload, $envelope->getMessage()::class, $delay);
        } catch (\RuntimeException | \JsonException $error) {
            throw new TransportException("the message could not be sent: {$error->getMessage()}", 0, $error);
        }
        if ($again !== null) {
            $this->running[$again->ref] = true;
        }
        return $envelope->with(new TransportMessageIdStamp($id));
    }

    public function get(): iterable
    {
        $inbox = Inbox::ofFramework();
        if ($inbox === null) {
            ($this->becomeWorker)($this->connection);
        }
        $queue = $this->connection->queue();
        // A message of another transport is left to that one.
        $line = $inbox->pull(self::WAIT, static fn (array $line): bool => ($line['queue'] ?? $queue) === $queue, $this->connection->batch());
        return $line === null ? [] : [$this->envelope($inbox, $line)];
    }

    public function ack(Envelope $envelope): void
    {
        $this->answer($envelope, new Done(null));
    }

    public function reject(Envelope $envelope): void
    {
        $then = $this->running[$envelope->last(StreamfleetStamp::class)?->ref] ?? false;
        $error = $envelope->last(ErrorDetailsStamp::class);
        $why = $error === null ? 'the message was rejected' : "{$error->getExceptionClass()}: {$error->getExceptionMessage()}";
        $this->answer($envelope, match ($then) {
            false => new Fatal($why),
            true => new Done(null),
            default => new Retry($why, $then / 1000),
        });
    }

    public function getMessageCount(): int
    {
        return $this->connection->count();
    }

    /** @param array<string, mixed> $line the job, as the worker has sent it (docs/pools.md) */
    private function envelope(Inbox $inbox, array $line): Envelope
    {
        $ref = (string) $line['ref'];
        try {
            if (!is_array($line['payload'] ?? null)) {
                throw new MessageDecodingFailedException('its payload is not that of a message of Messenger');
            }
            $envelope = $this->serializer->decode($line['payload'] + ['headers' => []]);
        } catch (MessageDecodingFailedException $error) {
            $inbox->answer($ref, new Fatal("the message cannot be decoded: {$error->getMessage()}"));
            throw $error;
        }
        $this->running[$ref] = false;
        $retries = RedeliveryStamp::getRetryCountFromEnvelope($envelope) + max(0, (int) ($line['attempt'] ?? 1) - 1);
        $stamps = $retries > 0 ? [new RedeliveryStamp($retries)] : [];
        $envelope = $envelope->with(new TransportMessageIdStamp((string) $line['id']), ...$stamps);
        return $envelope->with(new StreamfleetStamp($ref, $retries, $envelope));
    }

    /** The message that runs here, if it is about to be sent again. */
    private function again(Envelope $envelope): ?StreamfleetStamp
    {
        $stamp = $envelope->last(StreamfleetStamp::class);
        $isRunning = $stamp !== null && array_key_exists($stamp->ref, $this->running);
        return $isRunning && RedeliveryStamp::getRetryCountFromEnvelope($envelope) > $stamp->retries ? $stamp : null;
    }

    /** How many stamps would be sent with the message, besides those of retries. */
    private static function count(Envelope $envelope): int
    {
        $sent = array_merge(...array_values($envelope->withoutAll(TransportMessageIdStamp::class)->withoutStampsOfType(NonSendableStampInterface::class)->all()) ?: [[]]);
        return count(array_filter($sent, static fn (object $stamp): bool => !in_array($stamp::class, self::OF_RETRIES, true)));
    }

    private function answer(Envelope $envelope, Outcome $outcome): void
    {
        $ref = $envelope->last(StreamfleetStamp::class)?->ref;
        if ($ref !== null && array_key_exists($ref, $this->running)) {
            unset($this->running[$ref]);
            Inbox::ofFramework()?->answer($ref, $outcome);
        }
    }
}
