<?php

// An application as Laravel's tutorial has it, of the components that Debian has: it lacks laravel/framework, which adds the folders.

declare(strict_types=1);

use Illuminate\Config\Repository;
use Illuminate\Container\Container;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Support\Facades\Facade;

// As Composer does: the files of packages first, then classes on demand.
require_once dirname(__DIR__, 3) . '/php/autoload.php';
foreach (['Support', 'Container', 'Contracts', 'Config', 'Events', 'Bus', 'Queue', 'Redis', 'Database', 'Cache', 'Console', 'Encryption', 'Pipeline', 'Filesystem', 'View', 'Mail', 'Log'] as $component) {
    require_once "/usr/share/php/Illuminate/$component/autoload.php";
}
require_once '/usr/share/php/Egulias/EmailValidator/autoload.php';
@include_once '/usr/share/php/Predis/autoload.php';
require_once __DIR__ . '/foundation.php';
spl_autoload_register(static function (string $class): void {
    foreach (['Streamfleet\\Laravel\\' => dirname(__DIR__, 2) . '/src', 'App\\' => __DIR__] as $prefix => $folder) {
        $file = "$folder/" . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;
        }
    }
});

final class Application extends Container
{
    public function isDownForMaintenance(): bool
    {
        return false;
    }

    public function runningUnitTests(): bool
    {
        return false;
    }

    public function environment(): string
    {
        return 'production';
    }

    public function resourcePath(string $path = ''): string
    {
        return __DIR__ . "/$path";
    }

    public function runningInConsole(): bool
    {
        return false;
    }
}

$app = new Application();
Application::setInstance($app);
Facade::setFacadeApplication($app);
$redis = ['host' => '127.0.0.1', 'port' => (int) getenv('REDIS_PORT'), 'database' => 0];
$app->instance('app', $app);
$app->instance('config', new Repository([
    'queue' => [
        'default' => getenv('QUEUE_CONNECTION') ?: 'redis',
        'connections' => [
            'redis' => ['driver' => 'redis', 'connection' => 'default', 'queue' => 'default', 'retry_after' => 90, 'block_for' => null],
        ] + (getenv('QUEUE_PROGRAM') === false ? [] : ['streamfleet' => ['driver' => 'streamfleet', 'program' => getenv('QUEUE_PROGRAM'), 'processes' => (int) getenv('QUEUE_PROCESSES'), 'ahead' => (int) getenv('QUEUE_AHEAD')]]),
        'failed' => ['driver' => 'database-uuids', 'database' => 'sqlite', 'table' => 'failed_jobs'],
        'batching' => ['database' => 'sqlite', 'table' => 'job_batches'],
    ],
    'database' => [
        'default' => 'sqlite',
        'connections' => ['sqlite' => ['driver' => 'sqlite', 'database' => getenv('DB_DATABASE'), 'prefix' => '']],
        'redis' => ['client' => getenv('REDIS_CLIENT') ?: 'phpredis', 'options' => ['prefix' => 'laravel_database_'], 'default' => $redis],
    ],
    'cache' => ['default' => 'redis', 'prefix' => 'laravel_cache', 'stores' => ['redis' => ['driver' => 'redis', 'connection' => 'default']]],
    'app' => ['key' => str_repeat('k', 32), 'cipher' => 'AES-256-CBC'],
    'mail' => ['default' => 'log', 'mailers' => ['log' => ['transport' => 'log', 'channel' => 'mail']], 'from' => ['address' => 'shop@example.com', 'name' => 'Shop']],
    'view' => ['paths' => [__DIR__ . '/views'], 'compiled' => sys_get_temp_dir()],
    'logging' => ['default' => 'null', 'channels' => [
        'null' => ['driver' => 'monolog', 'handler' => Monolog\Handler\NullHandler::class],
        'mail' => ['driver' => 'single', 'path' => getenv('MAIL_LOG') ?: '/dev/null'],
    ]],
]));
$app->singleton(ExceptionHandler::class, static fn () => new class implements ExceptionHandler {
    public function report(Throwable $e): void
    {
    }

    public function shouldReport(Throwable $e): bool
    {
        return true;
    }

    public function render($request, Throwable $e)
    {
        throw $e;
    }

    public function renderForConsole($output, Throwable $e): void
    {
        fwrite(STDERR, "$e\n");
    }
});
$providers = [];
foreach ([
    Illuminate\Events\EventServiceProvider::class,
    Illuminate\Log\LogServiceProvider::class,
    Illuminate\Filesystem\FilesystemServiceProvider::class,
    Illuminate\Redis\RedisServiceProvider::class,
    Illuminate\Database\DatabaseServiceProvider::class,
    Illuminate\Cache\CacheServiceProvider::class,
    Illuminate\Encryption\EncryptionServiceProvider::class,
    Illuminate\Bus\BusServiceProvider::class,
    Illuminate\Queue\QueueServiceProvider::class,
    Illuminate\View\ViewServiceProvider::class,
    Illuminate\Mail\MailServiceProvider::class,
    Streamfleet\Laravel\StreamfleetServiceProvider::class,
] as $class) {
    $providers[] = $provider = new $class($app);
    $provider->register();
}
$aliases = [
    'app' => [Container::class, Illuminate\Contracts\Container\Container::class],
    'events' => [Illuminate\Contracts\Events\Dispatcher::class, Illuminate\Events\Dispatcher::class],
    'encrypter' => [Illuminate\Contracts\Encryption\Encrypter::class],
    'cache' => [Illuminate\Contracts\Cache\Factory::class],
    'cache.store' => [Illuminate\Contracts\Cache\Repository::class, Illuminate\Cache\Repository::class],
    'mail.manager' => [Illuminate\Contracts\Mail\Factory::class],
    'mailer' => [Illuminate\Contracts\Mail\Mailer::class],
    'queue' => [Illuminate\Contracts\Queue\Factory::class],
    'redis' => [Illuminate\Contracts\Redis\Factory::class],
    'db' => [Illuminate\Database\ConnectionResolverInterface::class],
    'log' => [Psr\Log\LoggerInterface::class],
];
foreach ($aliases as $name => $classes) {
    foreach ($classes as $class) {
        $app->alias($name, $class);
    }
}
foreach ($providers as $provider) {
    if (method_exists($provider, 'boot')) {
        $provider->boot();
    }
}
// What a service provider of an application does.
foreach ([Illuminate\Queue\Events\JobProcessed::class, Illuminate\Queue\Events\JobFailed::class] as $event) {
    $app['events']->listen($event, static function (object $event) use ($app): void {
        if ($event->job->resolveName() !== App\Jobs\Count::class) {
            $app['db']->table('notes')->insert(['what' => class_basename($event) . " {$event->job->resolveName()}", 'at' => microtime(true)]);
        }
    });
}
return $app;
