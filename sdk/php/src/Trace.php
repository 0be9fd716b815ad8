<?php

declare(strict_types=1);

namespace Streamfleet;

use OpenTelemetry\API\Trace\Propagation\TraceContextPropagator;

/**
 * The trace context of OpenTelemetry, if its API is loaded: a job gets that of the code which submits it, and its handler goes on
 * with it. `tracestate` travels as a header of this name.
 */
final class Trace
{
    public const STATE = 'tracestate';
    public const PARENT = 'traceparent';
    /** What W3C asks programs to pass on at least. Longer ones are left out. */
    private const LONGEST_STATE = 512;

    /**
     * @internal The context of the code that runs.
     * @return array{?string, ?string} `traceparent` and `tracestate`
     */
    public static function current(): array
    {
        if (!class_exists(TraceContextPropagator::class)) {
            return [null, null];
        }
        $carrier = [];
        TraceContextPropagator::getInstance()->inject($carrier);
        $state = $carrier[self::STATE] ?? '';
        return [$carrier[self::PARENT] ?? null, $state !== '' && strlen($state) <= self::LONGEST_STATE ? $state : null];
    }

    /**
     * @internal Makes the context of a job the current one, until the function that is returned is called.
     * @return \Closure(): void
     */
    public static function enter(Job $job): \Closure
    {
        $parent = $job->field(self::PARENT);
        if (!is_string($parent) || !class_exists(TraceContextPropagator::class)) {
            return static function (): void {
            };
        }
        $carrier = [self::PARENT => $parent] + (isset($job->headers[self::STATE]) ? [self::STATE => $job->headers[self::STATE]] : []);
        $scope = TraceContextPropagator::getInstance()->extract($carrier)->activate();
        return static function () use ($scope): void {
            $scope->detach();
        };
    }
}
