<?php

// Payloads that are encoded: the vectors that all packages share, keys, stores, and what a program of handlers makes of them.

declare(strict_types=1);

use Streamfleet\{Client, Codecs, InvalidSubmission, Producer, Submission};
use Streamfleet\Codecs\{CodecError, Directory, Header, Keys, MessagePack, S3, Store};

require __DIR__ . '/harness.php';

/** Payloads in memory. */
final class Claims implements Store
{
    /** @param array<string, string> $kept */
    public function __construct(public array $kept = [], private readonly bool $isBroken = false)
    {
    }

    public function put(string $sha256, string $bytes): void
    {
        $this->kept[$sha256] = $this->isBroken ? throw new Exception('the disk is full') : $bytes;
    }

    public function get(string $sha256, int $most): ?string
    {
        return $this->kept[$sha256] ?? null;
    }
}

function vectors(): array
{
    static $vectors = null;
    return $vectors ??= json_decode((string) file_get_contents(__DIR__ . '/../../../tests/codecs/vectors.json'), true, 512, JSON_THROW_ON_ERROR);
}

function vectorKeys(): Keys
{
    return new Keys(array_map(base64_decode(...), vectors()['keys']));
}

function vectorCodecs(): Codecs
{
    $claims = array_map(static fn (string|array $data): string => is_array($data) ? str_repeat("\0", $data['zeros']) : base64_decode($data), vectors()['claims']);
    return new Codecs(keys: vectorKeys(), claims: new Claims($claims), maxBytes: vectors()['max_bytes']);
}

/** The header and the bytes of a payload with these codecs, and what becomes of them. */
function thereAndBack(Codecs $codecs, string $bytes, string $type = 'a'): array
{
    [$header, $sent] = $codecs->encodePayload($type, 'raw', $bytes);
    return $header === null ? ['raw', $sent] : $codecs->decodePayload($type, $header, $sent);
}

test('every_vector_is_opened', function (): void {
    foreach (vectors()['opened'] as $vector) {
        $opened = vectorCodecs()->decodePayload($vector['type'], $vector['header'], base64_decode($vector['payload']));
        same([$vector['encoding'], base64_decode($vector['plain'])], $opened, $vector['what']);
    }
});

test('every_wrong_payload_is_refused_with_the_reason', function (): void {
    foreach (vectors()['refused'] as $vector) {
        $error = thrown(CodecError::class, static fn () => vectorCodecs()->decodePayload($vector['type'], $vector['header'], base64_decode($vector['payload']), $vector['encoding']));
        contains($vector['error'], $error->getMessage());
    }
});

test('messagepack_is_json_if_it_loses_nothing', function (): void {
    foreach (vectors()['packed'] as ['bytes' => $bytes, 'json' => $json]) {
        $bytes = base64_decode($bytes);
        if ($json === null) {
            thrown(UnexpectedValueException::class, static fn () => MessagePack::json($bytes));
        } else {
            same(json_decode($json, true, 512, JSON_BIGINT_AS_STRING), json_decode(MessagePack::json($bytes), true, 512, JSON_BIGINT_AS_STRING), bin2hex($bytes));
        }
    }
});

test('a_header_is_read_only_if_it_follows_the_grammar', function (): void {
    foreach (vectors()['headers'] as $text) {
        same($text, Header::parse($text)?->text());
    }
    foreach (vectors()['no_headers'] as $text) {
        same(null, Header::parse($text), $text);
    }
});

test('each_combination_comes_back_as_it_was', function (): void {
    foreach ([null, vectorKeys()] as $keys) {
        foreach ([false, true] as $compress) {
            foreach ([null, new Claims()] as $claims) {
                $codecs = new Codecs(keys: $keys, compress: $compress, claims: $claims, claimAbove: 2000);
                foreach (['', '1', random_bytes(5000), str_repeat('naive ', 5000)] as $bytes) {
                    same(['raw', $bytes], thereAndBack($codecs, $bytes));
                }
            }
        }
    }
});

test('nothing_is_done_that_gains_nothing', function (): void {
    $codecs = new Codecs(compress: true, claims: new Claims());
    foreach ([str_repeat('x', 1024), random_bytes(5000)] as $bytes) {
        same([null, $bytes], $codecs->encodePayload('a', 'json', $bytes));
    }
    [$header, $bytes] = $codecs->encodePayload('a', 'json', str_repeat('x', 1025));
    same(['json gzip', true], [$header, strlen($bytes) < 100]);
});

test('the_first_key_encrypts_and_all_decrypt', function (): void {
    $a = str_repeat('a', 32);
    $old = new Codecs(keys: new Keys(['a' => $a]));
    $new = new Codecs(keys: new Keys(['b' => str_repeat('b', 32), 'a' => $a]));
    [$header, $bytes] = $old->encodePayload('t', 'json', '1');
    same('json aes-256-gcm;key=a', $header);
    same(['json', '1'], $new->decodePayload('t', $header, $bytes));
    [$header, $bytes] = $new->encodePayload('t', 'json', '1');
    contains('encrypted with the key b, which', thrown(CodecError::class, static fn () => $old->decodePayload('t', $header, $bytes))->getMessage());
});

test('a_job_is_encoded_once_and_may_be_large_before', function (): void {
    $claims = new Claims();
    $codecs = new Codecs(claims: $claims);
    $large = str_repeat('x', 9 * 1024 * 1024);
    $job = new Submission('a', $large, encoding: 'raw', headers: ['tenant' => 9], id: 'i', codecs: $codecs);
    $header = 'raw claim;sha256=' . array_key_first($claims->kept);
    same(['type' => 'a', 'encoding' => 'raw', 'id' => 'i', 'h.tenant' => '9', 'h.codec' => $header], array_diff_key($job->fields(), ['payload' => 1]));
    same('', $job->bytes);
    same($job, $job->encodedBy($codecs));
    contains('a debounce', thrown(InvalidSubmission::class, static fn () => new Submission('a', 1, unique: 'k', uniqueMode: 'debounce', codecs: $codecs))->getMessage());
    $own = ['codec' => 'json gzip'];
    contains('belongs to codecs', thrown(InvalidSubmission::class, static fn () => new Submission('a', 1, headers: $own, codecs: $codecs))->getMessage());
    contains('belongs to codecs', thrown(InvalidSubmission::class, static fn () => (new Submission('a', 1, headers: $own))->encodedBy($codecs))->getMessage());
    contains('at most 8388608', thrown(InvalidSubmission::class, static fn () => new Submission('a', $large, encoding: 'raw', codecs: new Codecs()))->getMessage());
});

test('a_producer_encodes_every_job', function (): void {
    $client = new class implements Client {
        public array $sent = [];

        public function call(array $command): mixed
        {
            $this->sent[] = $command;
            return '1-0';
        }

        public function pipeline(array $commands): array
        {
            return array_map($this->call(...), $commands);
        }
    };
    $producer = new Producer($client, codecs: new Codecs(keys: vectorKeys()));
    $producer->enqueue('a', ['secret' => 1]);
    $producer->submit(new Submission('a', ['secret' => 1], headers: ['tenant' => 1]));
    $producer->enqueueMany([new Submission('a', ['secret' => 1])]);
    same(3, count($client->sent));
    foreach ($client->sent as $command) {
        same(false, str_contains(implode(' ', $command), 'secret'));
        same(true, in_array('json aes-256-gcm;key=2026-11', $command, true));
        same(['encoding', 'raw'], array_slice($command, (int) array_search('encoding', $command, true), 2));
    }
});

test('a_store_that_fails_sends_nothing', function (): void {
    $codecs = new Codecs(claims: new Claims(isBroken: true), claimAbove: 0);
    contains('so nothing was sent: the disk is full', thrown(CodecError::class, static fn () => $codecs->encodePayload('a', 'json', '1'))->getMessage());
});

test('keys_are_read_from_a_file_and_a_variable', function (): void {
    [$one, $two] = [str_repeat('1', 32), str_repeat('2', 32)];
    $file = folder() . '/keys';
    file_put_contents($file, "# new\n2026-11:" . base64_encode($one) . "\n  # old\n\n2026-10:" . base64_encode($two) . "\n");
    $keys = Keys::fromFile($file);
    same(['2026-11', $one, $two, null], [$keys->first, $keys->get('2026-11'), $keys->get('2026-10'), $keys->get('x')]);
    putenv('STREAMFLEET_TEST_KEYS=b:' . base64_encode($two) . ',a:' . base64_encode($one));
    same('b', Keys::fromEnv('STREAMFLEET_TEST_KEYS')->first);
    putenv('STREAMFLEET_TEST_KEYS');
});

test('no_error_shows_a_key', function (): void {
    $secret = base64_encode('canary-canary-canary-canary-cana');
    $cases = [
        $secret => 'item 1 must be name:key', "a:{$secret}!" => 'item 1 is not base64', 'a:' . substr($secret, 0, -4) => 'must have 32 bytes, not', "a b:$secret" => 'item 1 must be name:key',
        "-a:$secret" => 'the name of a key', "a:$secret a:$secret" => 'two keys', '' => 'has no key',
    ];
    foreach ($cases as $text => $why) {
        putenv("STREAMFLEET_TEST_KEYS=$text");
        $error = thrown(InvalidArgumentException::class, static fn () => Keys::fromEnv('STREAMFLEET_TEST_KEYS'));
        contains($why, $error->getMessage());
        same(false, str_contains($error->getMessage(), substr($secret, 0, 10)));
    }
    putenv("STREAMFLEET_TEST_KEYS=a:$secret");
    same(false, str_contains(print_r(new Codecs(keys: Keys::fromEnv('STREAMFLEET_TEST_KEYS')), true), 'canary'));
    putenv('STREAMFLEET_TEST_KEYS');
    contains('STREAMFLEET_TEST_KEYS is not set', thrown(InvalidArgumentException::class, static fn () => Keys::fromEnv('STREAMFLEET_TEST_KEYS'))->getMessage());
});

test('a_directory_keeps_bytes_by_their_hash_and_renews_their_time', function (): void {
    $folder = folder() . '/payloads';
    $store = new Directory($folder);
    $name = hash('sha256', 'bytes');
    same(null, $store->get($name, 100));
    $store->put($name, 'bytes');
    $file = "$folder/" . substr($name, 0, 2) . '/' . substr($name, 2, 2) . "/$name";
    same(['bytes', 'bytes'], [file_get_contents($file), $store->get($name, 100)]);
    touch($file, 1);
    $store->put($name, 'bytes');
    clearstatcache();
    same(true, filemtime($file) > time() - 60);
    file_put_contents($file, 'cut');
    $store->put($name, 'bytes');
    same(['bytes', 4], [$store->get($name, 100), strlen((string) $store->get($name, 3))]);
    same(['.', '..', $name], scandir(dirname($file)));
    chmod($file, 0600);
    contains('cannot be made', thrown(RuntimeException::class, static fn () => (new Directory("$file/x"))->put($name, 'bytes'))->getMessage());
});

test('nothing_but_a_hash_becomes_a_place', function (): void {
    foreach (['', str_repeat('../', 30), str_repeat('A', 64), str_repeat('0', 63), str_repeat('0', 64) . "\n"] as $wrong) {
        foreach ([new Directory('/nowhere'), new S3(new stdClass(), 'bucket')] as $store) {
            contains('64 hexadecimal digits', thrown(InvalidArgumentException::class, static fn () => $store->get($wrong, 1))->getMessage());
            contains('64 hexadecimal digits', thrown(InvalidArgumentException::class, static fn () => $store->put($wrong, ''))->getMessage());
        }
    }
});

test('a_bucket_is_reached_by_the_client_of_the_application', function (): void {
    $client = new class {
        public array $objects = [];

        public function putObject(array $given): void
        {
            $this->objects["{$given['Bucket']}/{$given['Key']}"] = $given['Body'];
        }

        public function getObject(array $given): array
        {
            $bytes = $this->objects["{$given['Bucket']}/{$given['Key']}"] ?? throw new class('no such key') extends Exception {
                public function getAwsErrorCode(): string
                {
                    return 'NoSuchKey';
                }
            };
            return ['Body' => $bytes];
        }
    };
    $store = new S3($client, 'payloads', 'jobs/');
    $name = hash('sha256', 'bytes');
    same(null, $store->get($name, 100));
    $store->put($name, 'bytes');
    same(["payloads/jobs/$name"], array_keys($client->objects));
    same(['bytes', 4], [$store->get($name, 100), strlen((string) $store->get($name, 3))]);
});

/** What a handler answers to a job with this payload. */
function ask(Program $program, string $bytes, ?string $header, string $encoding = 'raw'): array
{
    $headers = $header === null ? ['tenant' => '9'] : ['tenant' => '9', 'codec' => $header];
    return $program->answer('mail.send', null, ['headers' => $headers, 'encoding' => $encoding, 'payload_base64' => base64_encode($bytes)]);
}

function handlers(bool $usesCodecs = true): Program
{
    $keys = var_export(vectors()['keys'], true);
    return Program::start(($usesCodecs ? "\$worker->codecs(new Streamfleet\\Codecs(keys: new Streamfleet\\Codecs\\Keys(array_map(base64_decode(...), $keys))));\n" : '') . <<<'PHP'
        $worker->errors([Throwable::class => 'fatal']);
        $seen = null;
        $worker->listen(Event\Before::class, function (Event\Before $event) use (&$seen) { $seen = $event->job->payload; });
        $worker->on('mail.send', function (Job $job) use (&$seen) {
            $payload = is_string($job->payload) ? ['base64' => base64_encode($job->payload)] : $job->payload;
            return ['payload' => $payload, 'encoding' => $job->encoding, 'headers' => $job->headers, 'seen' => $seen === $job->payload];
        });
        $worker->run();
        PHP);
}

test('a_handler_sees_no_difference', function (): void {
    $codecs = new Codecs(keys: vectorKeys(), compress: true);
    $program = handlers();
    $plain = $program->answer('mail.send', ['to' => 'ann'], ['headers' => ['tenant' => '9']])['result'];
    foreach ([['to' => 'ann'], null, [str_repeat('é', 3000)], ['big' => '12345678901234567890123']] as $value) {
        $json = $value === null ? '' : json_encode($value);
        [$header, $bytes] = $codecs->encodePayload('mail.send', 'json', $json);
        same(['payload' => $value] + $plain, ask($program, $bytes, $header)['result']);
    }
    [$header, $bytes] = $codecs->encodePayload('mail.send', 'msgpack', "\x81\xa2to\xa3ann");
    same(['to' => 'ann'], ask($program, $bytes, $header)['result']['payload']);
    [$header, $bytes] = $codecs->encodePayload('mail.send', 'msgpack', "\xc4\x01\xff");
    same(['base64' => base64_encode("\xc4\x01\xff")], ask($program, $bytes, $header)['result']['payload']);
    [$header, $bytes] = $codecs->encodePayload('mail.send', 'raw', "\xff");
    same(['base64' => '/w=='], ask($program, $bytes, $header)['result']['payload']);
    [$header, $bytes] = $codecs->encodePayload('mail.send', 'json', '{no json');
    same(['json', ['base64' => base64_encode('{no json')]], [ask($program, $bytes, $header)['result']['encoding'], ask($program, $bytes, $header)['result']['payload']]);
});

test('what_cannot_be_decoded_is_retried_whatever_the_rules_say', function (): void {
    $program = handlers();
    $answer = ask($program, str_repeat('x', 40), 'json aes-256-gcm;key=2027-01');
    same(['retry', false], [$answer['outcome'], isset($answer['classes'])]);
    contains('encrypted with the key 2027-01, which this program does not have', $answer['error']);
    same('retry', ask($program, 'x', 'json zip')['outcome']);
    same('done', $program->answer('mail.send', 1)['outcome']);
});

test('a_program_without_codecs_says_so_and_leaves_other_headers_alone', function (): void {
    $program = handlers(usesCodecs: false);
    $answer = ask($program, 'x', 'json gzip');
    same('retry', $answer['outcome']);
    contains('Worker::codecs', $answer['error']);
    same('h264', ask($program, 'x', 'h264')['result']['headers']['codec']);
});
