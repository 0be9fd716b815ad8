<?php

// A stand-in for the server that `php bin/hyperf.php start` runs: it only has the processes of config/autoload/processes.php. As the
// documentation of Swoole says, each is a fork, and is started again when it ends.

declare(strict_types=1);

namespace Contract;

use Hyperf\Contract\ConfigInterface;
use Hyperf\Contract\StdoutLoggerInterface;
use Hyperf\Process\AbstractProcess;
use Psr\Container\ContainerInterface;
use Symfony\Component\Console\Command\Command;
use Symfony\Component\Console\Input\InputInterface;
use Symfony\Component\Console\Output\OutputInterface;

final class Server extends Command
{
    /** How long a process rests before it ends, and how long those that are asked to stop have for that, in microseconds. */
    private const REST = 100_000;
    private const PATIENCE = 3_000_000;

    public function __construct(private ContainerInterface $container)
    {
        parent::__construct('start');
    }

    protected function execute(InputInterface $input, OutputInterface $output): int
    {
        /** @var array<int, AbstractProcess> */
        $running = [];
        $isStopping = false;
        pcntl_async_signals(true);
        pcntl_signal(SIGTERM, static function () use (&$isStopping): void {
            $isStopping = true;
        });
        foreach (explode(',', (string) getenv('PROCESSES')) as $class) {
            $process = $this->container->get($class);
            for ($number = 0; $number < $process->nums; $number++) {
                $running[$this->fork($process)] = $process;
            }
        }
        while (!$isStopping) {
            $pid = pcntl_waitpid(-1, $status, WNOHANG);
            if ($pid > 0 && isset($running[$pid])) {
                $running[$this->fork($running[$pid])] = $running[$pid];
                unset($running[$pid]);
            }
            usleep(20_000);
        }
        $this->stop(array_keys($running));
        return 0;
    }

    private function fork(AbstractProcess $process): int
    {
        $pid = pcntl_fork();
        if ($pid > 0) {
            return $pid;
        }
        // Nobody has said what this process does on a signal.
        pcntl_signal(SIGTERM, SIG_DFL);
        $handle = function () use ($process): void {
            try {
                $process->handle();
            } catch (\Throwable $error) {
                $this->container->get(StdoutLoggerInterface::class)->error((string) $error);
            }
        };
        function_exists('Swoole\Coroutine\run') ? \Swoole\Coroutine\run($handle) : $handle();
        usleep(self::REST);
        exit(0);
    }

    /** @param list<int> $pids */
    private function stop(array $pids): void
    {
        array_map(static fn (int $pid): bool => posix_kill($pid, SIGTERM), $pids);
        for ($end = hrtime(true) + self::PATIENCE * 1000; $pids !== [] && hrtime(true) < $end; usleep(10_000)) {
            $pids = array_filter($pids, static fn (int $pid): bool => pcntl_waitpid($pid, $status, WNOHANG) === 0);
        }
        array_map(static fn (int $pid): bool => posix_kill($pid, SIGKILL), $pids);
    }
}
