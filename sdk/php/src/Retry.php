<?php

declare(strict_types=1);

namespace Streamfleet;

/** The attempt failed. The job is tried again, until it has failed as often as its policy allows. */
final class Retry implements Outcome
{
    private readonly ?int $delayMs;
    /** @var list<string> */
    private array $classes = [];

    /** @param int|float|null $after the pause in seconds, in place of the pause of the policy */
    public function __construct(public readonly string $error, int|float|null $after = null)
    {
        $this->delayMs = $after === null ? null : Time::lengthMs($after, 'after');
    }

    /**
     * @internal The failure of an exception about which this program has no rule. The worker may have one for its classes.
     * @param list<string> $classes
     */
    public static function undecided(string $error, array $classes): self
    {
        $retry = new self($error);
        $retry->classes = $classes;
        return $retry;
    }

    public function fields(): array
    {
        $bytes = strlen((string) json_encode($this->classes));
        $classes = $this->classes !== [] && Pipe::hasRoom($bytes) ? ['classes' => $this->classes] : [];
        $fields = ['outcome' => 'retry', 'error' => Pipe::cut($this->error, $classes === [] ? 0 : $bytes)] + $classes;
        return $this->delayMs === null ? $fields : $fields + ['delay_ms' => $this->delayMs];
    }
}
