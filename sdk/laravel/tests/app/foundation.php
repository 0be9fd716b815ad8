<?php

// A stand-in for what Debian lacks of laravel/framework, written from its documentation: `Job::dispatch(…)` and `dispatch($job)`.

declare(strict_types=1);

namespace Illuminate\Foundation\Bus {
    use Illuminate\Support\Facades\Bus;

    trait Dispatchable
    {
        public static function dispatch(mixed ...$arguments): mixed
        {
            return Bus::dispatch(new static(...$arguments));
        }
    }
}

namespace {
    use Illuminate\Support\Facades\Bus;

    function dispatch(mixed $job): mixed
    {
        return Bus::dispatch($job);
    }
}
