<?php

declare(strict_types=1);

namespace Streamfleet;

use Predis\ClientInterface;
use Predis\Command\RawCommand;
use Predis\PredisException;
use Predis\Response\ErrorInterface;

/** Predis, 1.1 or later. It sends raw commands, which the option `prefix` does not change. */
final class PredisClient implements Client
{
    public function __construct(private readonly ClientInterface $redis)
    {
    }

    public function call(array $command): mixed
    {
        $reply = $this->pipeline([$command])[0];
        if ($reply instanceof SubmitError) {
            throw $reply;
        }
        return $reply;
    }

    public function pipeline(array $commands): array
    {
        // The client's own pipelines throw away all replies if one of them is an error.
        $connection = $this->redis->getConnection();
        $requests = array_map(static fn (array $command): RawCommand => RawCommand::create(...$command), $commands);
        $replies = [];
        try {
            foreach ($requests as $request) {
                $connection->writeRequest($request);
            }
            foreach ($requests as $key => $request) {
                $replies[$key] = self::reply($connection->readResponse($request));
            }
        } catch (PredisException $exception) {
            // Replies that are still on their way would be taken for those of the next commands.
            $connection->disconnect();
            foreach (array_diff_key($requests, $replies) as $key => $request) {
                $replies[$key] = new Unconfirmed($exception->getMessage(), 0, $exception);
            }
        }
        return $replies;
    }

    private static function reply(mixed $reply): mixed
    {
        return match (true) {
            $reply instanceof ErrorInterface => new Refused($reply->getMessage()),
            is_object($reply) => (string) $reply,
            default => $reply,
        };
    }
}
