<?php

declare(strict_types=1);

namespace App;

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Mail\Mailable;

/** A mail as `php artisan make:mail` writes it. */
class OrderShipped extends Mailable implements ShouldQueue
{
    use Queueable;

    public function __construct(public int $order)
    {
    }

    public function build(): self
    {
        return $this->subject('Shipped')->view('shipped');
    }
}
