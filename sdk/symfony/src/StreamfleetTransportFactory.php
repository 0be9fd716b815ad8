<?php

declare(strict_types=1);

namespace Streamfleet\Messenger;

use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\TransportFactoryInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;

/** Makes transports, and remembers which queues they have, because one worker serves those that a command names. */
final class StreamfleetTransportFactory implements TransportFactoryInterface
{
    /** @var array<string, Connection> the transport's name → its connection */
    private array $connections = [];

    /** @param array<string, mixed> $options */
    public function createTransport(string $dsn, array $options, SerializerInterface $serializer): TransportInterface
    {
        $name = (string) ($options['transport_name'] ?? '');
        $connection = $this->connections[$name] = Connection::of($dsn, $options);
        return new StreamfleetTransport($connection, $serializer, $this->becomeWorker(...));
    }

    /** @param array<string, mixed> $options */
    public function supports(string $dsn, array $options): bool
    {
        return str_starts_with($dsn, 'streamfleet://') || str_starts_with($dsn, 'streamfleets://');
    }

    /** Turns `messenger:consume` into the worker of the fleet for all the transports that it names. */
    private function becomeWorker(Connection $first): never
    {
        $named = array_intersect_key($this->connections, array_flip(array_filter($_SERVER['argv'] ?? [], is_string(...))));
        $first->becomeWorker($named === [] ? [$first] : array_values($named));
    }
}
