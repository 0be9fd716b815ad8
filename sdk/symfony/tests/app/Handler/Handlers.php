<?php

declare(strict_types=1);

namespace App\Handler;

use App\Message\{Charge, Count, Half, Leave, Order, Wait, Welcome, Wrong};
use App\Notes;
use Symfony\Component\Mailer\Event\MessageEvent;
use Symfony\Component\Mailer\MailerInterface;
use Symfony\Component\Messenger\Event\{WorkerMessageFailedEvent, WorkerMessageHandledEvent};
use Symfony\Component\Messenger\Exception\UnrecoverableMessageHandlingException;
use Symfony\Component\Messenger\Handler\MessageSubscriberInterface;
use Symfony\Component\Messenger\MessageBusInterface;
use Symfony\Component\Messenger\Stamp\RedeliveryStamp;
use Symfony\Component\Mime\Email;
use Symfony\Component\EventDispatcher\EventSubscriberInterface;

/** The handlers, and what listens to Messenger's events. */
final class Handlers implements EventSubscriberInterface, MessageSubscriberInterface
{
    /** @var array<string, int> */
    private array $tries = [];

    public function __construct(private readonly MessageBusInterface $bus, private readonly MailerInterface $mailer)
    {
    }

    public static function getHandledMessages(): iterable
    {
        yield Welcome::class => ['method' => 'welcome'];
        yield Charge::class => ['method' => 'charge'];
        yield Order::class => ['method' => 'order'];
        yield Half::class => ['method' => 'first', 'priority' => 1];
        yield 'App\Message\Half' => ['method' => 'second'];
        yield Leave::class => ['method' => 'leave'];
        yield Wrong::class => ['method' => 'wrong'];
        yield Count::class => ['method' => 'count'];
        yield Wait::class => ['method' => 'wait'];
    }

    public function welcome(Welcome $message): void
    {
        $this->mailer->send((new Email())->from('shop@example.com')->to("{$message->name}@example.com")->subject('Welcome')->text('Hello'));
        Notes::add("welcomed {$message->name}");
    }

    public function charge(Charge $message): void
    {
        $tries = $this->tries('charge', $message->name);
        if ($tries < $message->works) {
            Notes::add("charge {$message->name} fails, try $tries");
            throw new \RuntimeException('the bank is busy');
        }
        Notes::add("charged {$message->name}, try $tries");
        // One message follows the other.
        $this->bus->dispatch(new Order("of {$message->name}"));
    }

    public function order(Order $message): void
    {
        Notes::add("order {$message->name}");
    }

    public function first(Half $message): void
    {
        Notes::add("first half of {$message->name}");
    }

    public function second(Half $message): void
    {
        $tries = $this->tries('half', $message->name);
        Notes::add("second half of {$message->name}, try $tries");
        if ($tries < $message->works) {
            throw new \RuntimeException('not yet');
        }
    }

    public function leave(Leave $message): void
    {
        $tries = $this->tries('leave', $message->name);
        Notes::add("left {$message->name}, try $tries");
        if ($tries < $message->works) {
            exit(3);
        }
    }

    public function wrong(Wrong $message): void
    {
        Notes::add("wrong {$message->name}");
        throw new UnrecoverableMessageHandlingException('no such user');
    }

    public function wait(Wait $message): void
    {
        usleep(10_000);
        Notes::add("waited {$message->name}");
    }

    public function count(Count $message): void
    {
    }

    public static function getSubscribedEvents(): array
    {
        return [
            WorkerMessageHandledEvent::class => 'handled',
            WorkerMessageFailedEvent::class => [['failed', -200]],
            MessageEvent::class => 'mailed',
        ];
    }

    public function handled(WorkerMessageHandledEvent $event): void
    {
        self::note('handled', $event->getEnvelope());
    }

    public function mailed(MessageEvent $event): void
    {
        Notes::add('mail ' . ($event->isQueued() ? 'queued' : 'sent'));
    }

    public function failed(WorkerMessageFailedEvent $event): void
    {
        self::note($event->willRetry() ? 'retry' : 'failed', $event->getEnvelope());
    }

    private static function note(string $what, \Symfony\Component\Messenger\Envelope $envelope): void
    {
        if (!$envelope->getMessage() instanceof Count) {
            Notes::add("$what " . (new \ReflectionClass($envelope->getMessage()))->getShortName() . ', retries ' . RedeliveryStamp::getRetryCountFromEnvelope($envelope));
        }
    }

    /** How often this was tried, also in programs that have ended. */
    private function tries(string $what, string $name): int
    {
        $file = getenv('APP_VAR') . "/$what-" . md5($name);
        file_put_contents($file, '.', FILE_APPEND);
        clearstatcache();
        return filesize($file);
    }
}
