<?php

declare(strict_types=1);

namespace Streamfleet\Messenger;

use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\HttpKernel\Bundle\Bundle;

/** Lets Messenger understand addresses that begin with `streamfleet://`. */
final class StreamfleetBundle extends Bundle
{
    public function build(ContainerBuilder $container): void
    {
        $container->register(StreamfleetTransportFactory::class, StreamfleetTransportFactory::class)->addTag('messenger.transport_factory');
    }
}
