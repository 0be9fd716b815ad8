<?php

declare(strict_types=1);

namespace Streamfleet;

/**
 * Translates tasks to jobs and back. A type is only looked up among the classes that the program has registered: no name
 * from Redis ever becomes a class.
 */
final class Tasks
{
    /** @var array<class-string, string> */
    private static array $types = [];
    private static ?Submitter $producer = null;

    /**
     * Names the types of classes that have no #[JobType].
     *
     * @param array<class-string, string> $types class → type
     */
    public static function map(array $types): void
    {
        self::$types = $types + self::$types;
    }

    /** Sets the producer of `dispatch`. */
    public static function submitBy(Submitter $producer): void
    {
        self::$producer = $producer;
    }

    public static function producer(): Submitter
    {
        return self::$producer ?? throw new \LogicException('dispatch() has no producer: call Streamfleet\Tasks::submitBy($producer) when the application starts');
    }

    /** @param class-string $class */
    public static function typeOf(string $class): string
    {
        return self::$types[$class] ?? self::attribute($class)?->type
            ?? throw new \LogicException("$class has no job type: give it #[JobType('…')], or name it in Tasks::map");
    }

    /** @internal The type whose jobs a method handles, and its options; null if it names none. */
    public static function ofMethod(\ReflectionMethod $method): ?JobType
    {
        $attribute = ($method->getAttributes(JobType::class)[0] ?? null)?->newInstance();
        if ($attribute === null) {
            return null;
        }
        $name = "{$method->class}::{$method->getName()}";
        if (!$method->isPublic() || $method->isAbstract()) {
            throw new \LogicException("$name has #[JobType('{$attribute->type}')], but is not a public method with a body");
        }
        if ($attribute->submitting() !== []) {
            throw new \LogicException(implode(', ', $attribute->submitting()) . " of #[JobType('{$attribute->type}')] have no effect on $name: they say how a task is submitted. Set them where the job is submitted");
        }
        return $attribute;
    }

    /** @internal The attribute of a task class. */
    public static function attribute(string $class): ?JobType
    {
        $attributes = (new \ReflectionClass($class))->getAttributes(JobType::class);
        return $attributes === [] ? null : $attributes[0]->newInstance();
    }

    /** @internal The job that a submission or a task describes. */
    public static function job(object $job): Submission
    {
        return $job instanceof Submission ? $job : self::submission($job, []);
    }

    /**
     * The job for a task.
     *
     * @param array<string, mixed> $options parameters of Submission
     */
    public static function submission(object $task, array $options): Submission
    {
        $attribute = self::attribute($task::class);
        $defaults = $attribute === null ? [] : array_filter(get_object_vars($attribute), static fn (mixed $value): bool => $value !== null);
        unset($defaults['type']);
        // Two ways to say the same thing exclude each other, so the call replaces either.
        foreach ([['lane', 'priority'], ['delay', 'runAt']] as $alternatives) {
            if (array_intersect($alternatives, array_keys($options)) !== []) {
                $defaults = array_diff_key($defaults, array_flip($alternatives));
            }
        }
        return new Submission(self::typeOf($task::class), self::payload($task), ...array_merge($defaults, $options));
    }

    /**
     * The task that a payload describes.
     *
     * @template T of object
     * @param class-string<T> $class
     * @return T
     * @throws FatalError if the payload does not fit: it never will
     */
    public static function revive(string $class, mixed $payload): object
    {
        if ($payload !== null && !is_array($payload)) {
            throw new FatalError("the payload of $class is not an object");
        }
        $mirror = new \ReflectionClass($class);
        $task = $mirror->newInstanceWithoutConstructor();
        $defaults = [];
        foreach ($mirror->getConstructor()?->getParameters() ?? [] as $parameter) {
            if ($parameter->isPromoted() && $parameter->isDefaultValueAvailable()) {
                $defaults[$parameter->getName()] = $parameter->getDefaultValue();
            }
        }
        foreach (self::properties($mirror) as $property) {
            $name = $property->getName();
            if (array_key_exists($name, $payload ?? [])) {
                self::set($task, $property, $payload[$name]);
            } elseif (array_key_exists($name, $defaults)) {
                self::assign($task, $property, $defaults[$name]);
            } elseif ($property->isInitialized($task)) {
                continue;
            } elseif ($property->getType()?->allowsNull()) {
                self::assign($task, $property, null);
            } else {
                throw new FatalError("the payload of $class lacks '$name'");
            }
        }
        return $task;
    }

    private static function payload(object $task): \stdClass
    {
        $payload = new \stdClass();
        foreach (self::properties(new \ReflectionClass($task)) as $property) {
            if ($property->isInitialized($task)) {
                $payload->{$property->getName()} = self::plain($property->getValue($task), $task::class . '::$' . $property->getName());
            }
        }
        return $payload;
    }

    /** A value that JSON can express and that comes back as it was. */
    private static function plain(mixed $value, string $where): mixed
    {
        return match (true) {
            is_array($value) => array_map(static fn (mixed $each): mixed => self::plain($each, $where), $value),
            $value instanceof \BackedEnum => $value->value,
            $value instanceof \DateTimeInterface => $value->format('Y-m-d\TH:i:s.uP'),
            is_object($value) => throw new InvalidSubmission("$where has a " . $value::class . ', which cannot be sent: send its id, or a plain value'),
            default => $value,
        };
    }

    private static function set(object $task, \ReflectionProperty $property, mixed $value): void
    {
        $type = $property->getType();
        $class = $type instanceof \ReflectionNamedType && !$type->isBuiltin() ? $type->getName() : null;
        try {
            if ($class !== null && $value !== null) {
                $value = match (true) {
                    is_a($class, \BackedEnum::class, true) => $class::from($value),
                    $class === \DateTimeInterface::class => new \DateTimeImmutable($value),
                    // Also those below PHP's own, such as Carbon.
                    is_a($class, \DateTimeInterface::class, true) && class_exists($class) => new $class($value),
                    default => $value,
                };
            }
            self::assign($task, $property, $value);
        } catch (\TypeError | \ValueError | \Exception $error) {
            throw new FatalError("the payload of {$property->class} does not fit '{$property->getName()}': {$error->getMessage()}", 0, $error);
        }
    }

    private static function assign(object $task, \ReflectionProperty $property, mixed $value): void
    {
        // Only the class itself may set a readonly property.
        $name = $property->getName();
        $assign = function () use ($name, $value): void {
            $this->$name = $value;
        };
        \Closure::bind($assign, $task, $property->class)();
    }

    /** @return list<\ReflectionProperty> */
    private static function properties(\ReflectionClass $mirror): array
    {
        return array_values(array_filter($mirror->getProperties(\ReflectionProperty::IS_PUBLIC), static fn (\ReflectionProperty $property): bool => !$property->isStatic()));
    }
}
