<?php

// A stand-in for what a driver of a queue needs of Hyperf: container, configuration, commands, processes, Redis, context. It is written
// from Hyperf's documentation and the signatures of its interfaces, and does no more than the tests need.

declare(strict_types=1);

namespace Hyperf\Contract {
    interface PackerInterface
    {
        public function pack($data): string;

        public function unpack(string $data);
    }

    interface ConfigInterface
    {
        public function get(string $key, mixed $default = null): mixed;
    }

    interface StdoutLoggerInterface
    {
        public function error(string $text): void;
    }

    interface CompressInterface
    {
        public function compress(): UnCompressInterface;
    }

    interface UnCompressInterface
    {
        public function uncompress(): CompressInterface;
    }
}

namespace Hyperf\Codec\Packer {
    use Hyperf\Contract\PackerInterface;

    class PhpSerializerPacker implements PackerInterface
    {
        public function pack($data): string
        {
            return serialize($data);
        }

        public function unpack(string $data)
        {
            return unserialize($data);
        }
    }
}

namespace Hyperf\Context {
    use Psr\Container\ContainerInterface;

    /** Values of the coroutine in which they are asked for. */
    class Context
    {
        private static array $values = [];

        public static function get(string $id, mixed $default = null): mixed
        {
            return self::$values[self::coroutine()][$id] ?? $default;
        }

        public static function set(string $id, mixed $value): mixed
        {
            return self::$values[self::coroutine()][$id] = $value;
        }

        private static function coroutine(): int
        {
            return class_exists('Swoole\Coroutine', false) ? \Swoole\Coroutine::getCid() : -1;
        }
    }

    class ApplicationContext
    {
        private static ContainerInterface $container;

        public static function getContainer(): ContainerInterface
        {
            return self::$container;
        }

        public static function setContainer(ContainerInterface $container): ContainerInterface
        {
            return self::$container = $container;
        }
    }
}

namespace Hyperf\Command {
    use Symfony\Component\Console\Command\Command as SymfonyCommand;
    use Symfony\Component\Console\Input\InputInterface;
    use Symfony\Component\Console\Output\OutputInterface;

    abstract class Command extends SymfonyCommand
    {
        protected bool $coroutine = true;
        protected ?InputInterface $input = null;
        protected ?OutputInterface $output = null;

        public function __construct(?string $name = null)
        {
            parent::__construct($name);
        }

        abstract public function handle();

        protected function execute(InputInterface $input, OutputInterface $output): int
        {
            [$this->input, $this->output] = [$input, $output];
            $failure = null;
            $handle = function () use (&$failure): void {
                try {
                    $this->handle();
                } catch (\Throwable $error) {
                    $failure = $error;
                }
            };
            $this->coroutine && function_exists('Swoole\Coroutine\run') ? \Swoole\Coroutine\run($handle) : $handle();
            if ($failure !== null) {
                $output->writeln("<error>{$failure->getMessage()}</error>");
                return 1;
            }
            return 0;
        }
    }
}

namespace Hyperf\Process {
    use Psr\Container\ContainerInterface;

    class ProcessManager
    {
        private static bool $running = true;

        public static function isRunning(): bool
        {
            return self::$running;
        }

        public static function setRunning(bool $running): void
        {
            self::$running = $running;
        }
    }

    /** A process of the server, which starts it again whenever it ends. */
    abstract class AbstractProcess
    {
        public string $name = 'process';
        public int $nums = 1;

        public function __construct(protected ContainerInterface $container)
        {
        }

        abstract public function handle(): void;
    }
}

namespace Hyperf\Redis {
    use Hyperf\Contract\ConfigInterface;

    /** A proxy of the connections of a pool. */
    class RedisProxy
    {
        private ?\Redis $redis = null;

        public function __construct(private array $config)
        {
        }

        public function __call(string $name, array $arguments): mixed
        {
            if ($this->redis === null) {
                $this->redis = new \Redis();
                $this->redis->connect($this->config['host'], $this->config['port']);
            }
            return $this->redis->$name(...$arguments);
        }
    }

    class RedisFactory
    {
        /** @var array<string, RedisProxy> */
        private array $proxies = [];

        public function __construct(private ConfigInterface $config)
        {
        }

        public function get(string $name): RedisProxy
        {
            return $this->proxies[$name] ??= new RedisProxy($this->config->get("redis.$name"));
        }
    }
}

namespace Hyperf\Support {
    use Hyperf\Context\ApplicationContext;

    /** A new object, whose further parameters the container fills. */
    function make(string $class, array $parameters = []): object
    {
        return ApplicationContext::getContainer()->make($class, $parameters);
    }
}

namespace Contract {
    use Hyperf\Contract\ConfigInterface;
    use Hyperf\Contract\StdoutLoggerInterface;
    use Psr\Container\ContainerInterface;
    use Psr\EventDispatcher\EventDispatcherInterface;

    /** Makes objects once, and fills their constructors by the types of the parameters. */
    final class Container implements ContainerInterface
    {
        /** @var array<string, object> */
        private array $objects = [];

        public function set(string $id, object $object): void
        {
            $this->objects[$id] = $object;
        }

        public function has(string $id): bool
        {
            return isset($this->objects[$id]) || class_exists($id);
        }

        public function get(string $id)
        {
            return $this->objects[$id] ??= $this->make($id, []);
        }

        public function make(string $class, array $given): object
        {
            $arguments = [];
            foreach ((new \ReflectionClass($class))->getConstructor()?->getParameters() ?? [] as $at => $parameter) {
                $name = $parameter->getName();
                $arguments[] = $given[$name] ?? $given[$at] ?? ($parameter->isDefaultValueAvailable() ? $parameter->getDefaultValue() : $this->get($parameter->getType()->getName()));
            }
            return new $class(...$arguments);
        }
    }

    final class Config implements ConfigInterface
    {
        public function __construct(private array $values)
        {
        }

        public function get(string $key, mixed $default = null): mixed
        {
            $value = $this->values;
            foreach (explode('.', $key) as $part) {
                $value = is_array($value) ? $value[$part] ?? null : null;
            }
            return $value ?? $default;
        }
    }

    final class Logger implements StdoutLoggerInterface
    {
        public function error(string $text): void
        {
            fwrite(STDERR, "[ERROR] $text\n");
        }
    }

    final class Dispatcher implements EventDispatcherInterface
    {
        /** @var array<class-string, list<\Closure>> */
        public array $listeners = [];

        public function dispatch(object $event)
        {
            foreach ($this->listeners[$event::class] ?? [] as $listener) {
                $listener($event);
            }
            return $event;
        }
    }
}
