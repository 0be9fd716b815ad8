<?php

// Boots the application on the stand-ins of tests/contract, and returns its console.

declare(strict_types=1);

use Contract\{Config, Container, Dispatcher, Logger, Server};
use Hyperf\AsyncQueue\Annotation\AsyncQueueMessage;
use Hyperf\AsyncQueue\{AnnotationJob, Environment};
use Hyperf\AsyncQueue\Driver\DriverFactory;
use Hyperf\Context\ApplicationContext;
use Hyperf\Contract\{ConfigInterface, StdoutLoggerInterface};
use Psr\EventDispatcher\EventDispatcherInterface;
use Symfony\Component\Console\Application;

// As Composer does: the files of packages first, then classes on demand.
$packages = dirname(__DIR__, 3);
require_once "$packages/php/autoload.php";
require_once '/usr/share/php/Symfony/Component/Console/autoload.php';
require_once '/usr/share/php/Psr/Container/autoload.php';
require_once '/usr/share/php/Psr/EventDispatcher/autoload.php';
if (getenv('SWOOLE') === '1') {
    require_once "$packages/php/tests/swoole.php";
}
foreach (['framework', 'queue', 'drivers', 'server'] as $part) {
    require_once dirname(__DIR__) . "/contract/$part.php";
}
spl_autoload_register(static function (string $class) use ($packages): void {
    foreach (['Streamfleet\\Hyperf\\' => "$packages/hyperf/src", 'App\\' => __DIR__, 'Vendor\\' => __DIR__ . '/Vendor'] as $prefix => $folder) {
        $file = "$folder/" . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;
        }
    }
});

$config = ['redis' => require __DIR__ . '/config/redis.php', 'async_queue' => require getenv('ASYNC_QUEUE') ?: __DIR__ . '/config/async_queue.php'];
$container = new Container();
$container->set(Psr\Container\ContainerInterface::class, $container);
$container->set(ConfigInterface::class, new Config($config));
$container->set(StdoutLoggerInterface::class, new Logger());
$container->set(EventDispatcherInterface::class, $dispatcher = new Dispatcher());
ApplicationContext::setContainer($container);

// What listeners of an application do.
foreach (['BeforeHandle', 'AfterHandle', 'RetryHandle', 'FailedHandle'] as $name) {
    $dispatcher->listeners["Hyperf\\AsyncQueue\\Event\\$name"][] = static function (object $event) use ($name): void {
        $job = $event->getMessage()->job();
        App\Notes::add("$name " . ($job instanceof AnnotationJob ? $job->method : substr(strrchr($job::class, '\\'), 1)) . ', ' . $event->getMessage()->getAttempts());
    };
}
$dispatcher->listeners[Hyperf\AsyncQueue\Event\QueueLength::class][] = static fn (object $event) => App\Notes::add("QueueLength {$event->key}");

/** What Hyperf's aspect does around a method with #[AsyncQueueMessage]: outside of a job, the call becomes a job. */
function call(string $class, string $method, mixed ...$arguments): void
{
    $container = ApplicationContext::getContainer();
    $attribute = (new ReflectionMethod($class, $method))->getAttributes(AsyncQueueMessage::class)[0]->newInstance();
    if ($container->get(Environment::class)->isAsyncQueue()) {
        $container->get($class)->$method(...$arguments);
    } else {
        $container->get(DriverFactory::class)->get($attribute->pool)->push(new AnnotationJob($class, $method, $arguments, $attribute->maxAttempts), $attribute->delay);
    }
}

$app = new Application();
$app->setAutoExit(false);
$commands = [Server::class, Hyperf\AsyncQueue\Command\InfoCommand::class, Hyperf\AsyncQueue\Command\ReloadCommand::class, Hyperf\AsyncQueue\Command\FlushCommand::class];
foreach ([...$commands, ...(new Streamfleet\Hyperf\ConfigProvider())()['commands']] as $command) {
    $app->add($container->get($command));
}
return $app;
