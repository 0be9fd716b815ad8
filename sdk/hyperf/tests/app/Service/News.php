<?php

declare(strict_types=1);

namespace App\Service;

use App\Notes;
use Hyperf\AsyncQueue\Annotation\AsyncQueueMessage;

class News
{
    #[AsyncQueueMessage(delay: 1, maxAttempts: 1)]
    public function publish(string $title): void
    {
        Notes::add("published $title");
        // Within a job, the call is no job of its own.
        \call(self::class, 'count', $title);
    }

    #[AsyncQueueMessage]
    public function count(string $title): void
    {
        Notes::add("counted $title");
    }

    public function erase(): void
    {
        Notes::add('erased');
    }
}
