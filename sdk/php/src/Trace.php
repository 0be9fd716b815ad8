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
    /** The W3C standard: a member of a `tracestate`, and the most characters and members of one. */
    private const MEMBER = '{^([a-z0-9][a-z0-9_\-*/@]{0,255})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$}D';
    private const MOST_CHARACTERS = 512;
    private const MOST_MEMBERS = 32;

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
        return [$carrier[self::PARENT] ?? null, self::state($carrier[self::STATE] ?? null)];
    }

    /** @internal A `tracestate` that keeps the standard. Another one is left out as a whole. */
    public static function state(?string $text): ?string
    {
        if ($text === null || strlen($text) > self::MOST_CHARACTERS) {
            return null;
        }
        $keys = [];
        foreach (explode(',', $text) as $member) {
            $member = trim($member, " \t");
            if ($member === '') {
                continue;
            }
            if (preg_match(self::MEMBER, $member, $found) !== 1 || isset($keys[$found[1]])) {
                return null;
            }
            $keys[$found[1]] = true;
        }
        return $keys !== [] && count($keys) <= self::MOST_MEMBERS ? $text : null;
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
        $state = self::state(isset($job->headers[self::STATE]) ? (string) $job->headers[self::STATE] : null);
        $carrier = [self::PARENT => $parent] + ($state === null ? [] : [self::STATE => $state]);
        $scope = TraceContextPropagator::getInstance()->extract($carrier)->activate();
        return static function () use ($scope): void {
            $scope->detach();
        };
    }
}
