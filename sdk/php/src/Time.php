<?php

declare(strict_types=1);

namespace Streamfleet;

/** Seconds of PHP as whole milliseconds of the wire, which takes decimal digits only: no fraction and no exponent. */
final class Time
{
    /** The first instant that is too late: the year 10000. */
    private const END_MS = 253_402_300_800_000;
    /** September 2001. Smaller numbers are seconds from now by mistake. */
    private const EARLIEST_MS = 1_000_000_000_000;

    /** A length of time: seconds, or an interval that is counted from now. */
    public static function lengthMs(int|float|\DateInterval $length, string $name): int
    {
        if ($length instanceof \DateInterval) {
            $now = new \DateTimeImmutable('@0');
            return self::bounded((int) $now->add($length)->format('Uv'), $name);
        }
        return self::bounded($length * 1000, $name);
    }

    /** A length of time as the program streamfleet reads it. Texts stay as they are. */
    public static function lengthText(string|int|float|\DateInterval|null $length, string $name): ?string
    {
        return is_string($length) || $length === null ? $length : self::lengthMs($length, $name) . 'ms';
    }

    /** An instant: a date, or seconds since 1970, such as those of microtime(true). */
    public static function instantMs(int|float|\DateTimeInterface $instant, string $name): int
    {
        $ms = $instant instanceof \DateTimeInterface ? (int) $instant->format('Uv') : $instant * 1000;
        if (!$instant instanceof \DateTimeInterface && $ms >= 0 && $ms < self::EARLIEST_MS) {
            throw new InvalidSubmission("$name must be a date, or seconds since 1970, such as time() + 60, not seconds from now");
        }
        return self::bounded($ms, $name);
    }

    /** An instant as a date. */
    public static function dateText(?int $ms): ?string
    {
        return $ms === null ? null : gmdate('Y-m-d\TH:i:s', intdiv($ms, 1000)) . sprintf('.%03dZ', $ms % 1000);
    }

    private static function bounded(int|float $ms, string $name): int
    {
        // A comparison with NAN is false, so this refuses NAN too.
        if (!($ms >= 0 && $ms < self::END_MS)) {
            throw new InvalidSubmission("$name must not be negative, and must lie before the year 10000; times are in seconds");
        }
        return (int) round($ms);
    }
}
