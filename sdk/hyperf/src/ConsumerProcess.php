<?php

declare(strict_types=1);

namespace Streamfleet\Hyperf;

use Hyperf\AsyncQueue\Driver\DriverFactory;
use Hyperf\Process\AbstractProcess;
use Psr\Container\ContainerInterface;

/**
 * A process of the server that watches one worker with all programs of a queue, in place of Hyperf's ConsumerProcess, of which there
 * is one for each program.
 */
class ConsumerProcess extends AbstractProcess
{
    public int $nums = 1;
    /** A section of `config/autoload/async_queue.php`. */
    protected string $pool = 'default';

    private readonly StreamfleetDriver $driver;

    public function __construct(ContainerInterface $container)
    {
        parent::__construct($container);
        $this->driver = StreamfleetDriver::named($container->get(DriverFactory::class), $this->pool);
        $this->name = "streamfleet.{$this->pool}";
    }

    public function handle(): void
    {
        $this->driver->supervise($this->driver->processes());
    }
}
