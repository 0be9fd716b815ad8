<?php

declare(strict_types=1);

namespace Streamfleet\Hyperf\Command;

use Hyperf\AsyncQueue\Driver\DriverFactory;
use Hyperf\Command\Command;
use Streamfleet\Hyperf\StreamfleetDriver;
use Symfony\Component\Console\Input\InputArgument;

/** `streamfleet:work`: becomes a worker, for containers and services that have consumers and no server. */
final class WorkCommand extends Command
{
    /** This process becomes another program. */
    protected bool $coroutine = false;

    public function __construct(private readonly DriverFactory $drivers)
    {
        parent::__construct('streamfleet:work');
    }

    public function handle(): void
    {
        StreamfleetDriver::named($this->drivers, $this->input->getArgument('pool'))->becomeWorker();
    }

    protected function configure(): void
    {
        $this->setDescription('Work on the jobs of a queue without a server, with as many programs as "processes" says.');
        $this->addArgument('pool', InputArgument::OPTIONAL, 'A section of config/autoload/async_queue.php', 'default');
    }
}
