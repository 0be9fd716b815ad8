<?php

declare(strict_types=1);

namespace Streamfleet\Runtime;

use Streamfleet\Runtime;

/**
 * Runs each job in a coroutine of Swoole or OpenSwoole, with their hooks, so that waiting for databases and HTTP lets the others go on.
 */
final class Swoole implements Runtime
{
    /** What both name SWOOLE_EVENT_READ or OPENSWOOLE_EVENT_READ. */
    private const READABLE = 512;

    /** The namespace of the extension that is loaded. */
    private readonly string $extension;
    /** @var class-string */
    private readonly string $coroutine;
    /** @var class-string */
    private readonly string $system;

    public function __construct()
    {
        $this->extension = class_exists('OpenSwoole\Coroutine', false) ? 'OpenSwoole' : 'Swoole';
        $this->coroutine = "{$this->extension}\\Coroutine";
        $this->system = "{$this->extension}\\Coroutine\\System";
    }

    /** Whether one of the two extensions is loaded. */
    public static function isLoaded(): bool
    {
        return extension_loaded('swoole') || extension_loaded('openswoole');
    }

    /** Whether this is called in a coroutine, as when a framework has begun to run them. */
    public function isInside(): bool
    {
        return $this->coroutine::getCid() > 0;
    }

    public function run(\Closure $loop): void
    {
        if ($this->isInside()) {
            $loop();
        } elseif ($this->extension === 'OpenSwoole') {
            $this->coroutine::set(['hook_flags' => constant('OpenSwoole\Runtime::HOOK_ALL')]);
            $this->coroutine::run($loop);
        } else {
            $this->coroutine::set(['hook_flags' => SWOOLE_HOOK_ALL]);
            \Swoole\Coroutine\run($loop);
        }
    }

    public function go(\Closure $job): void
    {
        $this->coroutine::create($job);
    }

    public function wait($stream, float $seconds): bool
    {
        return (bool) $this->system::waitEvent($stream, self::READABLE, $seconds);
    }

    public function pause(float $seconds): void
    {
        $this->system::sleep($seconds);
    }
}
