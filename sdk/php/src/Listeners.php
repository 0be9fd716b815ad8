<?php

declare(strict_types=1);

namespace Streamfleet;

/** @internal Tells listeners what happens to jobs. None of them can change it: one that throws is reported on standard error. */
final class Listeners
{
    /** @var array<class-string, list<callable>> event → listeners */
    private array $byEvent = [];
    /** @var list<\Closure> */
    private array $dispatchers = [];

    public function add(string $event, callable $listener): void
    {
        if (!in_array($event, [Event\Before::class, Event\After::class, Event\Retrying::class, Event\Failed::class], true)) {
            throw new \InvalidArgumentException("there is no event '$event': see the classes of Streamfleet\\Event");
        }
        $this->byEvent[$event][] = $listener;
    }

    public function forward(object $dispatcher): void
    {
        if (!is_callable([$dispatcher, 'dispatch'])) {
            throw new \InvalidArgumentException($dispatcher::class . ' has no method dispatch, as an event dispatcher of PSR-14 has');
        }
        $this->dispatchers[] = $dispatcher->dispatch(...);
    }

    public function tell(object $event): void
    {
        foreach ([...$this->byEvent[$event::class] ?? [], ...$this->dispatchers] as $listener) {
            try {
                $listener($event);
            } catch (\Throwable $error) {
                fwrite(STDERR, 'a listener of ' . $event::class . " failed: $error\n");
            }
        }
    }
}
