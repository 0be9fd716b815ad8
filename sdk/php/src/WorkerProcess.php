<?php

declare(strict_types=1);

namespace Streamfleet;

/**
 * A `streamfleet worker` that this process has started, and watches. The worker notices the end of this process, however it ends,
 * and then lets its jobs end: nothing is left running, and nobody has to be asked twice.
 */
final class WorkerProcess
{
    private bool $isAsked = false;
    /** The exit status, once it is known. */
    private ?int $code = null;

    /** @param resource $process */
    private function __construct(private $process, private readonly int $pid)
    {
    }

    /**
     * @internal See Launcher::start.
     * @param list<string> $command
     * @param array<string, string> $environment
     */
    public static function start(array $command, array $environment): self
    {
        // Its output goes where that of this process goes, whose constants STDOUT and STDERR may be closed.
        $files = [['file', '/dev/null', 'r'], ['file', 'php://stdout', 'a'], ['file', 'php://stderr', 'a']];
        $process = proc_open([...$command, '--parent', (string) getmypid()], $files, $pipes, null, $environment);
        if ($process === false) {
            throw new \RuntimeException("$command[0] could not be started");
        }
        return new self($process, (int) proc_get_status($process)['pid']);
    }

    public function pid(): int
    {
        return $this->pid;
    }

    public function isRunning(): bool
    {
        if ($this->code === null) {
            $status = proc_get_status($this->process);
            if ($status['running']) {
                return true;
            }
            $this->code = $status['signaled'] ? 128 + $status['termsig'] : $status['exitcode'];
        }
        return false;
    }

    /** The exit status; 128 and the signal if one ended it, null while it runs. */
    public function code(): ?int
    {
        return $this->isRunning() ? null : $this->code;
    }

    /** Asks it to end after its jobs, once: a second request would cut them short. */
    public function stop(): void
    {
        if (!$this->isAsked && $this->isRunning()) {
            $this->isAsked = proc_terminate($this->process, \defined('SIGTERM') ? SIGTERM : 15);
        }
    }

    /** Replaces the programs of its pool, one after the other, while it works on. */
    public function reload(): void
    {
        if (!$this->isAsked && $this->isRunning()) {
            proc_terminate($this->process, \defined('SIGHUP') ? SIGHUP : 1);
        }
    }
}
