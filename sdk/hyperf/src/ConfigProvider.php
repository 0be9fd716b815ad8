<?php

declare(strict_types=1);

namespace Streamfleet\Hyperf;

/** What Hyperf takes from this package by itself: its commands. The driver is named in `config/autoload/async_queue.php`. */
final class ConfigProvider
{
    /** @return array<string, mixed> */
    public function __invoke(): array
    {
        return [
            'commands' => [Command\WorkCommand::class, Command\PoolCommand::class, Command\LettersCommand::class],
        ];
    }
}
