<?php

declare(strict_types=1);

namespace Streamfleet;

/**
 * The user's own Redis client. Commands are sent as they are: no prefix, no serializer and no compression of the client may
 * change their keys and values. Replies are strings, integers, null, and lists of them.
 */
interface Client
{
    /**
     * Sends one command.
     *
     * @param non-empty-list<string> $command the second item is its key
     * @throws Refused if the server answers with an error
     * @throws Unconfirmed if there is no answer
     */
    public function call(array $command): mixed;

    /**
     * Sends many commands in one round trip, or a few.
     *
     * @param non-empty-array<int|string, non-empty-list<string>> $commands
     * @return array<int|string, mixed> key → the reply, a Refused, or an Unconfirmed
     */
    public function pipeline(array $commands): array;
}
