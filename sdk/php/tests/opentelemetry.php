<?php

// A stand-in for OpenTelemetry's API, written from its documentation: a context, and the propagator of W3C.

declare(strict_types=1);

namespace OpenTelemetry\Context {
    final class Scope
    {
        public function __construct(private readonly ?Context $before)
        {
        }

        public function detach(): int
        {
            Context::$current = $this->before;
            return 0;
        }
    }

    final class Context
    {
        public static ?self $current = null;

        /** @param array<string, string> $carrier */
        public function __construct(public readonly array $carrier)
        {
        }

        public function activate(): Scope
        {
            $scope = new Scope(self::$current);
            self::$current = $this;
            return $scope;
        }
    }
}

namespace OpenTelemetry\API\Trace\Propagation {
    use OpenTelemetry\Context\Context;

    final class TraceContextPropagator
    {
        public static function getInstance(): self
        {
            return new self();
        }

        /** @param array<string, string> $carrier */
        public function inject(mixed &$carrier): void
        {
            $carrier = (Context::$current->carrier ?? []) + $carrier;
        }

        /** @param array<string, string> $carrier */
        public function extract(array $carrier): Context
        {
            return new Context($carrier);
        }
    }
}
