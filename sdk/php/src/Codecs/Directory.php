<?php

declare(strict_types=1);

namespace Streamfleet\Codecs;

/** A folder, which all producers and handlers share: each file is in a folder of a folder, named by the first digits of its hash. */
final class Directory implements Store
{
    public function __construct(private readonly string $path)
    {
        if ($path === '') {
            throw new \InvalidArgumentException('the folder of payloads must have a path');
        }
    }

    public function put(string $sha256, string $bytes): void
    {
        $file = $this->file($sha256);
        clearstatcache(true, $file);
        if (is_file($file) && @filesize($file) === strlen($bytes) && @touch($file)) {
            return;
        }
        $folder = dirname($file);
        if (!is_dir($folder) && !@mkdir($folder, 0777, true) && !is_dir($folder)) {
            throw new \RuntimeException("the folder $folder cannot be made: " . self::reason());
        }
        $temporary = $folder . '/.' . bin2hex(random_bytes(8)) . '.tmp';
        try {
            self::write($temporary, $bytes);
            if (!@rename($temporary, $file)) {
                throw new \RuntimeException("the file $file cannot be written: " . self::reason());
            }
        } finally {
            @unlink($temporary);
        }
    }

    public function get(string $sha256, int $most): ?string
    {
        $file = $this->file($sha256);
        clearstatcache(true, $file);
        if (!is_file($file)) {
            return null;
        }
        $bytes = @file_get_contents($file, false, null, 0, $most + 1);
        if ($bytes === false) {
            throw new \RuntimeException("the file $file cannot be read: " . self::reason());
        }
        return $bytes;
    }

    /** A hash chooses a place, so nothing else may get here. */
    private function file(string $sha256): string
    {
        Header::checkHash($sha256);
        return $this->path . '/' . substr($sha256, 0, 2) . '/' . substr($sha256, 2, 2) . '/' . $sha256;
    }

    private static function write(string $file, string $bytes): void
    {
        $out = @fopen($file, 'xb');
        $isWritten = $out !== false && fwrite($out, $bytes) === strlen($bytes) && fflush($out) && fsync($out);
        if ($out !== false) {
            fclose($out);
        }
        if (!$isWritten) {
            throw new \RuntimeException("the file $file cannot be written: " . self::reason());
        }
    }

    private static function reason(): string
    {
        return error_get_last()['message'] ?? 'nobody knows why';
    }
}
