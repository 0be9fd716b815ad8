<?php

declare(strict_types=1);

namespace Streamfleet;

/** What follows from exceptions, by their classes. The nearest class decides: see Worker::errors. */
final class ErrorRules
{
    /** How many classes the worker looks at, and how long their names may be. */
    private const MOST_CLASSES = 32;
    private const LONGEST_NAME = 200;

    /** @var array<class-string, string|int|float> */
    private array $rules = [];

    /** @param array<class-string, string|int|float> $rules see Worker::errors */
    public function add(array $rules): void
    {
        foreach ($rules as $class => $then) {
            if (!is_string($class) || !class_exists($class) && !interface_exists($class)) {
                throw new \InvalidArgumentException("errors() has no class or interface '$class': is it misspelt, or the autoloader missing?");
            }
            if (is_string($then) && !in_array($then, ['fatal', 'retry', 'unknown', 'drop'], true)) {
                throw new \InvalidArgumentException("errors() has '$then' for $class: say 'fatal', 'retry', 'unknown', 'drop', or after how many seconds to retry");
            }
            if (!is_string($then)) {
                // Refuses what is no time.
                new Retry('', $then);
            }
            // PHP finds classes whatever the case of their names.
            $this->rules[(new \ReflectionClass($class))->getName()] = $then;
        }
    }

    /**
     * What follows from an exception with this text; null if no class has a rule. 'drop' does not hold for a step that must not run
     * twice: the class does not say how far the handler came.
     */
    public function outcome(\Throwable $error, string $text, bool $isOnce = false): ?Outcome
    {
        foreach ($this->rules === [] ? [] : self::ruled($error) as $class) {
            if (isset($this->rules[$class])) {
                return match ($this->rules[$class]) {
                    'fatal' => new Fatal($text),
                    'retry' => new Retry($text),
                    'unknown' => new Unknown($text),
                    'drop' => $isOnce ? new Retry($text) : new Drop($text),
                    default => new Retry($text, $this->rules[$class]),
                };
            }
        }
        return null;
    }

    /**
     * The classes of an exception, as the pool protocol has them: its own, its parents, and its interfaces.
     *
     * @return list<string>
     */
    public static function classes(\Throwable $error): array
    {
        $isSent = static fn (string $class): bool => strlen($class) <= self::LONGEST_NAME && preg_match('//u', $class) === 1;
        return array_slice(array_values(array_filter(self::lineage($error), $isSent)), 0, self::MOST_CLASSES);
    }

    /**
     * The classes whose rules count for an exception. One that says itself what follows is not meant by a rule for what is more
     * general, such as RuntimeException.
     *
     * @return list<string>
     */
    private static function ruled(\Throwable $error): array
    {
        foreach ([FatalError::class, UnknownError::class] as $says) {
            if ($error instanceof $says) {
                return array_values(array_filter(self::lineage($error), static fn (string $class): bool => is_a($class, $says, true)));
            }
        }
        return self::lineage($error);
    }

    /** @return list<string> */
    private static function lineage(\Throwable $error): array
    {
        $all = [$error::class, ...array_values(class_parents($error)), ...array_values(class_implements($error))];
        // What has no name has the path of its file in place of it.
        return array_values(array_filter($all, static fn (string $class): bool => !str_contains($class, "\0")));
    }
}
