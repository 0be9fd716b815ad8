<?php

declare(strict_types=1);

namespace Streamfleet\Codecs;

/** A bucket of S3, or of a store that is compatible, by a client of the AWS SDK: `new S3(new Aws\S3\S3Client([…]), 'my-bucket')`. */
final class S3 implements Store
{
    /** @param object $client an Aws\S3\S3Client */
    public function __construct(private readonly object $client, private readonly string $bucket, private readonly string $prefix = '')
    {
    }

    /** An object that is written again is as old as its last writing. */
    public function put(string $sha256, string $bytes): void
    {
        $object = $this->of($sha256);
        $this->client->putObject($object + ['Body' => $bytes]);
    }

    public function get(string $sha256, int $most): ?string
    {
        $object = $this->of($sha256);
        try {
            $answer = $this->client->getObject($object);
        } catch (\Exception $error) {
            if (is_callable([$error, 'getAwsErrorCode']) && in_array($error->getAwsErrorCode(), ['NoSuchKey', 'NotFound'], true)) {
                return null;
            }
            throw $error;
        }
        $body = $answer['Body'];
        $size = is_object($body) ? $body->getSize() : strlen((string) $body);
        // Those are too many; nobody reads them.
        return $size !== null && $size > $most ? str_repeat("\0", $most + 1) : (string) $body;
    }

    /** @return array{Bucket: string, Key: string} */
    private function of(string $sha256): array
    {
        Header::checkHash($sha256);
        return ['Bucket' => $this->bucket, 'Key' => $this->prefix . $sha256];
    }
}
