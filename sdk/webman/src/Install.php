<?php

declare(strict_types=1);

namespace Streamfleet\Webman;

/** What webman calls when Composer installs or removes this package: it copies the configuration, or takes it away. */
final class Install
{
    public const WEBMAN_PLUGIN = true;
    private const FOLDER = 'config/plugin/streamfleet/webman';

    public static function install(): void
    {
        $folder = base_path() . '/' . self::FOLDER;
        if (!is_dir($folder) && !mkdir($folder, 0755, true) && !is_dir($folder)) {
            throw new \RuntimeException("$folder could not be created");
        }
        if (!is_file("$folder/app.php")) {
            copy(__DIR__ . '/' . self::FOLDER . '/app.php', "$folder/app.php");
        }
    }

    public static function uninstall(): void
    {
        $folder = base_path() . '/' . self::FOLDER;
        if (is_file("$folder/app.php")) {
            unlink("$folder/app.php");
            @rmdir($folder);
        }
    }
}
