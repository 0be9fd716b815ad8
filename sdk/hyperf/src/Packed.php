<?php

declare(strict_types=1);

namespace Streamfleet\Hyperf;

use Hyperf\AsyncQueue\Annotation\AsyncQueueMessage;
use Hyperf\AsyncQueue\AnnotationJob;
use Hyperf\AsyncQueue\JobInterface;
use Hyperf\AsyncQueue\MessageInterface;
use Hyperf\Contract\CompressInterface;
use Hyperf\Contract\PackerInterface;
use Hyperf\Contract\UnCompressInterface;

/**
 * Unpacks what PHP has serialized, if all its classes may be in a job: a program that can write to Redis must not choose which code
 * runs by the name of a class.
 */
final class Packed
{
    /** What may be in each job: the job itself, what stands for models, and dates. Enums have no state. */
    private const ALWAYS = [JobInterface::class, MessageInterface::class, CompressInterface::class, UnCompressInterface::class, \DateTimeInterface::class, \DateTimeZone::class, \DateInterval::class, \UnitEnum::class, \stdClass::class];
    /** A value up to where a string or the name of a class begins. What a class writes in a form of its own (`C`) is none of them. */
    private const NEXT = '/\G(?:[ibd]:[^;]*;|[rR]:\d+;|N;|a:\d+:\{|\}|s:(\d+):"|([OE]):(\d+):")/';

    /**
     * @param list<string> $prefixes what the names of other classes may begin with; `*` for all
     * @throws \UnexpectedValueException if it is no message of Hyperf, or has a class that it may not have
     */
    public static function unpack(string $bytes, PackerInterface $packer, array $prefixes): MessageInterface
    {
        $isTrusted = in_array('*', $prefixes, true) || !self::isSerialized($packer);
        foreach ($isTrusted ? [] : self::classes($bytes) as $name) {
            if (!self::mayBe($name, $prefixes)) {
                throw new \UnexpectedValueException("the job has an object of the class $name, which jobs may not have: add what its name begins with to streamfleet.classes in config/autoload/async_queue.php");
            }
        }
        $message = $packer->unpack($bytes);
        if (!$message instanceof MessageInterface) {
            throw new \UnexpectedValueException("the payload is no message of Hyperf's async queue");
        }
        $job = $message->job();
        if ($job instanceof AnnotationJob && !$isTrusted && !self::isAnnotated($job->class, $job->method)) {
            throw new \UnexpectedValueException("the job calls {$job->class}::{$job->method}, which has no #[AsyncQueueMessage]; with '*' in streamfleet.classes in config/autoload/async_queue.php, a job may call any method");
        }
        return $message;
    }

    /** Whether a method runs asynchronously, by its attribute or that of its class. */
    private static function isAnnotated(string $class, string $method): bool
    {
        if (!method_exists($class, $method)) {
            return false;
        }
        $mirror = new \ReflectionMethod($class, $method);
        return $mirror->getAttributes(AsyncQueueMessage::class) !== [] || $mirror->getDeclaringClass()->getAttributes(AsyncQueueMessage::class) !== []
            || (new \ReflectionClass($class))->getAttributes(AsyncQueueMessage::class) !== [];
    }

    /**
     * The names of all classes in a serialized value.
     *
     * @return list<string>
     */
    public static function classes(string $bytes): array
    {
        $names = [];
        for ($at = 0; $at < strlen($bytes);) {
            if (preg_match(self::NEXT, $bytes, $found, 0, $at) !== 1) {
                throw new \UnexpectedValueException("the payload has no form in which PHP serializes jobs: byte $at");
            }
            $at += strlen($found[0]);
            if (($found[2] ?? '') !== '') {
                $name = substr($bytes, $at, (int) $found[3]);
                $names[$found[2] === 'E' ? (string) strstr("$name:", ':', true) : $name] = true;
                $at = self::afterName($bytes, $at + (int) $found[3], $found[2]);
            } elseif (($found[1] ?? '') !== '') {
                // A string, with its quote and its semicolon.
                $at += (int) $found[1] + 2;
            }
        }
        return array_map(strval(...), array_keys($names));
    }

    /** Where the next value begins behind the name of a class. */
    private static function afterName(string $bytes, int $at, string $kind): int
    {
        if (preg_match($kind === 'O' ? '/\G":\d+:\{/' : '/\G";/', $bytes, $found, 0, $at) !== 1) {
            throw new \UnexpectedValueException("the payload is nothing that PHP has serialized: byte $at");
        }
        return $at + strlen($found[0]);
    }

    /** @param list<string> $prefixes */
    private static function mayBe(string $name, array $prefixes): bool
    {
        foreach ($prefixes as $prefix) {
            if (strncasecmp($name, $prefix, strlen($prefix)) === 0) {
                return true;
            }
        }
        foreach (self::ALWAYS as $class) {
            if (is_a($name, $class, true)) {
                return true;
            }
        }
        return false;
    }

    /** Whether this packer writes what PHP serializes. Others are trusted: the application has chosen them. */
    private static function isSerialized(PackerInterface $packer): bool
    {
        return preg_match('/PhpSerializer(Packer)?\z/', $packer::class) === 1;
    }
}
