<?php

declare(strict_types=1);

namespace Vendor;

/** A class of a library, whose objects do something when they are unserialized. */
class Gadget
{
    public function __wakeup(): void
    {
        \App\Notes::add('a gadget woke up');
    }
}
