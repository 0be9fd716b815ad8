<?php

declare(strict_types=1);

namespace App\Message;

final class Order
{
    public function __construct(public string $name, public int $works = 1)
    {
    }
}
