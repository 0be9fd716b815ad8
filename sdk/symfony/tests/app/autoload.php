<?php

// As Composer does: the files of packages first, then classes on demand.

declare(strict_types=1);

require_once dirname(__DIR__, 3) . '/php/autoload.php';
foreach (['Messenger', 'Console', 'Mailer', 'Mime', 'Process', 'PropertyAccess', 'Serializer', 'Yaml'] as $component) {
    $file = "/usr/share/php/Symfony/Component/$component/autoload.php";
    if (is_file($file)) {
        require_once $file;
    }
}
require_once '/usr/share/php/Symfony/Bundle/FrameworkBundle/autoload.php';
require_once '/usr/share/php/Symfony/Component/Messenger/Bridge/Redis/autoload.php';
spl_autoload_register(static function (string $class): void {
    foreach (['Streamfleet\\Messenger\\' => dirname(__DIR__, 2) . '/src', 'App\\' => __DIR__] as $prefix => $folder) {
        $file = "$folder/" . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;
        }
    }
});
