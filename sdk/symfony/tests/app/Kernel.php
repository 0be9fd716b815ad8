<?php

// An application as Symfony's documentation has it.

declare(strict_types=1);

namespace App;

use Psr\Log\NullLogger;
use Streamfleet\Messenger\StreamfleetBundle;
use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpKernel\Kernel as BaseKernel;

final class Kernel extends BaseKernel
{
    use MicroKernelTrait;

    public function registerBundles(): iterable
    {
        return [new FrameworkBundle(), new StreamfleetBundle()];
    }

    public function getProjectDir(): string
    {
        return __DIR__;
    }

    public function getCacheDir(): string
    {
        return getenv('APP_VAR') . '/cache';
    }

    public function getLogDir(): string
    {
        return getenv('APP_VAR') . '/log';
    }

    private function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', [
            'secret' => 'x',
            'http_method_override' => false,
            'mailer' => ['dsn' => 'null://null'],
            'messenger' => [
                'transports' => [
                    'async' => [
                        'dsn' => '%env(MESSENGER_TRANSPORT_DSN)%',
                        'options' => getenv('MESSENGER_OPTIONS') ? json_decode(getenv('MESSENGER_OPTIONS'), true) : [],
                        'retry_strategy' => ['max_retries' => 2, 'delay' => 300, 'multiplier' => 2],
                    ],
                    'high' => ['dsn' => '%env(MESSENGER_HIGH_DSN)%', 'options' => getenv('MESSENGER_OPTIONS') ? json_decode(getenv('MESSENGER_OPTIONS'), true) : []],
                ],
                'routing' => [
                    'App\Message\Async' => 'async',
                    'Symfony\Component\Mailer\Messenger\SendEmailMessage' => 'async',
                    Message\Order::class => 'high',
                ],
            ],
        ]);
        $services = $container->services()->defaults()->autowire()->autoconfigure()->public();
        $services->load('App\\', __DIR__ . '/*')->exclude([__DIR__ . '/Kernel.php', __DIR__ . '/*.php', __DIR__ . '/Message']);
        $services->set('logger', NullLogger::class);
    }
}
