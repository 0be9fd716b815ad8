<?php

declare(strict_types=1);

namespace Streamfleet\Hyperf\Command;

use Hyperf\AsyncQueue\Driver\DriverFactory;
use Hyperf\Command\Command;
use Streamfleet\Hyperf\StreamfleetDriver;
use Symfony\Component\Console\Input\InputArgument;
use Symfony\Component\Console\Input\InputOption;

/** `streamfleet:letters`: lists or replays failed jobs by their class, as `queue:dynamic-reload` does for Hyperf's own driver. */
final class LettersCommand extends Command
{
    private const LIMIT = 100;

    public function __construct(private readonly DriverFactory $drivers)
    {
        parent::__construct('streamfleet:letters');
    }

    public function handle(): void
    {
        $driver = StreamfleetDriver::named($this->drivers, $this->input->getArgument('pool'));
        $job = $this->input->getOption('job');
        $limit = $this->input->getOption('limit');
        if ($this->input->getOption('reload')) {
            $where = ['type' => StreamfleetDriver::TYPE] + ($job === null ? [] : ['header' => "job=$job"]) + ($limit === null ? [] : ['limit' => (string) (int) $limit]);
            $this->output->writeln('Replayed ' . $driver->cli()->replayDead($where, 'streamfleet:letters') . ' jobs.');
            return;
        }
        foreach ($driver->letters()->find($job, (int) ($limit ?? self::LIMIT)) as $id => $letter) {
            $this->output->writeln("$id {$letter['job']}: " . strtok($letter['error'], "\n"));
        }
    }

    protected function configure(): void
    {
        $this->setDescription('List failed jobs, or replay those of a class.');
        $this->addArgument('pool', InputArgument::OPTIONAL, 'A section of config/autoload/async_queue.php', 'default');
        $this->addOption('job', 'J', InputOption::VALUE_REQUIRED, 'The class of the jobs, or Class::method of a method with #[AsyncQueueMessage]');
        $this->addOption('limit', 'L', InputOption::VALUE_REQUIRED, 'How many');
        $this->addOption('reload', 'R', InputOption::VALUE_NONE, 'Replay them');
    }
}
