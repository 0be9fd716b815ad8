<?php

declare(strict_types=1);

namespace Streamfleet\Hyperf\Command;

use Hyperf\AsyncQueue\Driver\DriverFactory;
use Hyperf\Command\Command;
use Streamfleet\Hyperf\StreamfleetDriver;
use Symfony\Component\Console\Input\InputArgument;

/** `streamfleet:pool`: the program of a pool. Only a worker starts it. */
final class PoolCommand extends Command
{
    public function __construct(private readonly DriverFactory $drivers)
    {
        parent::__construct('streamfleet:pool');
    }

    public function handle(): void
    {
        StreamfleetDriver::named($this->drivers, $this->input->getArgument('pool'))->consumer()->run();
    }

    protected function configure(): void
    {
        $this->setDescription('Work on the jobs that a streamfleet worker hands over. The worker starts this command by itself.');
        $this->addArgument('pool', InputArgument::OPTIONAL, 'A section of config/autoload/async_queue.php', 'default');
    }
}
