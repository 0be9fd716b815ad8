<?php

// What the tests of drivers share: the framework's own command, kept running.

declare(strict_types=1);

/** A process that works on jobs. It is started again when it ends, as Supervisor and systemd do. */
final class Work
{
    private readonly int $pid;
    private readonly string $log;

    /** @var resource */
    private $process;

    public function __construct(array $command, string $folder, array $environment)
    {
        $this->log = folder() . '/log';
        $loop = 'trap "kill -TERM \$pid 2>/dev/null; wait \$pid; exit 0" TERM; while true; do "$@" & pid=$!; wait $pid; sleep 0.05; done';
        $this->process = proc_open(['setsid', 'sh', '-c', $loop, 'sh', ...$command], [['file', '/dev/null', 'r'], ['file', $this->log, 'w'], ['file', $this->log, 'a']], $pipes, $folder, $environment);
        $this->pid = proc_get_status($this->process)['pid'];
        atEnd($this->kill(...));
    }

    public function log(): string
    {
        return (string) file_get_contents($this->log);
    }

    /** @return list<int> the programs of the pool: children of the worker, which is a child of the loop */
    public function programs(): array
    {
        $children = static fn (int $pid): array => array_map(intval(...), array_filter(explode(' ', (string) @file_get_contents("/proc/$pid/task/$pid/children"))));
        $programs = [];
        foreach ($children($this->pid) as $worker) {
            foreach (scandir("/proc/$worker/task") ?: [] as $thread) {
                $programs = [...$programs, ...array_map(intval(...), array_filter(explode(' ', (string) @file_get_contents("/proc/$worker/task/$thread/children"))))];
            }
        }
        return $programs;
    }

    /** Kills one program of the pool. */
    public function killProgram(): void
    {
        posix_kill(eventually(fn (): int|false => current($this->programs()), 'a program of the pool'), SIGKILL);
    }

    /** Asks it to stop. */
    public function terminate(): void
    {
        proc_terminate($this->process, SIGTERM);
    }

    public function stop(): void
    {
        $this->terminate();
        eventually(fn (): bool => !proc_get_status($this->process)['running'], 'the end of the worker', 30);
    }

    /** Ends it as a crash of the machine does. */
    public function kill(): void
    {
        @posix_kill(-$this->pid, SIGKILL);
    }
}

/**
 * The processes whose variable TMPDIR is this folder, and which have this in their command lines.
 *
 * @return list<int>
 */
function processesOf(string $folder, string $part): array
{
    $pids = [];
    foreach (glob('/proc/[0-9]*/cmdline') ?: [] as $file) {
        $isOurs = in_array("TMPDIR=$folder", explode("\0", (string) @file_get_contents(dirname($file) . '/environ')), true);
        if ($isOurs && str_contains(strtr((string) @file_get_contents($file), "\0", ' '), $part)) {
            $pids[] = (int) basename(dirname($file));
        }
    }
    return $pids;
}
