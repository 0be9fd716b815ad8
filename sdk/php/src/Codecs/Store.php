<?php

declare(strict_types=1);

namespace Streamfleet\Codecs;

/** Keeps payloads apart from Redis, by the SHA-256 of their bytes: Directory, S3, or a class of your own. */
interface Store
{
    /** Stores bytes under their hash. Bytes that are there already get the time of now, so that deletion by age is safe. */
    public function put(string $sha256, string $bytes): void;

    /** Reads the bytes of a hash; null if there are none. Of more than `$most` bytes, it may return any that are too many. */
    public function get(string $sha256, int $most): ?string;
}
