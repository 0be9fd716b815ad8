<?php

declare(strict_types=1);

namespace Streamfleet;

/** A job to be submitted, checked by the rules of the wire contract. */
final class Submission
{
    public const TYPE = '/\A[a-z0-9][a-z0-9._-]{0,127}\z/';
    private const QUEUE = '/\A[a-z0-9][a-z0-9_-]{0,63}\z/';
    /** What XADD or a script could return as an id, which an id of one's own must not look like. */
    private const DERIVED = '/\A\d+-\d+(-high|-low)?\z/';
    private const LANES = ['high' => ':high', 'normal' => '', 'low' => ':low'];
    private const TRACKING = ['all', 'failures', 'none'];
    private const MOST_BYTES = 8 * 1024 * 1024;
    private const MOST_HEADER_BYTES = 8192;
    private const TOO_LARGE = 'a payload may have at most ' . self::MOST_BYTES . ' bytes; store large data elsewhere and send its address, or let Codecs do so';
    private const OWN_HEADER = 'the header codec belongs to codecs: leave it out, and encode a job once';
    private const MOST_HEADERS = 900;
    private const MOST_THEN_BYTES = 64 * 1024;
    private const LONGEST_TIMEOUT_MS = 604_800_000;

    public readonly string $lane;
    public readonly ?string $uniqueScope;
    /** The payload as it is sent; '' for none. */
    public readonly string $bytes;
    /** How these bytes are encoded; null for JSON. */
    public readonly ?string $encoding;
    /** @var array<string, string> the entry's fields */
    private readonly array $fields;
    /** Whether codecs have seen the payload. */
    private readonly bool $isEncoded;

    /**
     * @param string $type the job's type, which selects the handler
     * @param mixed $payload anything that JSON can express; null for none. With an encoding: the encoded bytes
     * @param ?string $queue the queue, in place of the producer's
     * @param int|float|\DateInterval|null $delay the job does not start until this many seconds after its submission
     * @param int|float|\DateTimeInterface|null $runAt the job does not start before this instant: a date, or seconds since 1970
     * @param int|float|\DateTimeInterface|null $expiresAt no attempt starts at or after this instant
     * @param ?string $id an id of your own. The handler gets it as an idempotency key; XADD does not compare ids, see Http and Cli
     * @param ?int $maxAttempts after how many failures the job becomes a dead letter
     * @param int|float|null $timeout how many seconds one attempt may run
     * @param ?string $lane `high`, `normal` or `low`
     * @param ?int $priority in place of a lane: 1 to 3 is low, 4 to 7 normal, 8 to 10 high
     * @param ?string $tracking `all`: the job leaves a record even if it never fails; `failures`; `none`
     * @param array<string, string|int|float|bool> $headers headers for the handler
     * @param ?string $onSuccess the type of a job that is submitted when this one succeeds
     * @param ?string $onFailure the type of a job that is submitted when this one dies
     * @param list<array{type: string, payload?: mixed, on_failure?: string, queue?: string}> $then jobs that follow one after the other; `queue`
     *   sends a job, and those after it that name none, to another queue
     * @param ?string $batch the batch that this job belongs to, which Cli::batch or the Rust producer has opened
     * @param ?string $traceparent the W3C trace context; that of OpenTelemetry, if its API is loaded
     * @param ?string $encoding null: the payload is encoded as JSON. `json`, `msgpack` or `raw`: it is a string that is
     *   encoded so already, and is sent unchanged
     * @param ?string $unique only with Http and Cli: while a job holds this key, others with the same key are not accepted
     * @param string|int|float|\DateInterval|null $uniqueScope only with Http and Cli: `running`, `waiting`, or a length: seconds, or `30s`
     * @param ?string $uniqueMode only with Http and Cli: `reject`, `replace` or `debounce`
     * @param ?Codecs $codecs compresses, encrypts or stores the payload apart. A Producer with codecs does so itself
     * @throws InvalidSubmission
     */
    public function __construct(
        public readonly string $type,
        public readonly mixed $payload = null,
        public readonly ?string $queue = null,
        int|float|\DateInterval|null $delay = null,
        int|float|\DateTimeInterface|null $runAt = null,
        int|float|\DateTimeInterface|null $expiresAt = null,
        public readonly ?string $id = null,
        ?int $maxAttempts = null,
        int|float|null $timeout = null,
        ?string $lane = null,
        ?int $priority = null,
        ?string $tracking = null,
        array $headers = [],
        ?string $onSuccess = null,
        ?string $onFailure = null,
        array $then = [],
        ?string $batch = null,
        ?string $traceparent = null,
        ?string $encoding = null,
        public readonly ?string $unique = null,
        string|int|float|\DateInterval|null $uniqueScope = null,
        public readonly ?string $uniqueMode = null,
        ?Codecs $codecs = null,
    ) {
        self::check(preg_match(self::TYPE, $type) === 1, "'$type' is not a job type: " . self::TYPE);
        self::check($queue === null || preg_match(self::QUEUE, $queue) === 1, "'$queue' is not a queue: " . self::QUEUE);
        self::check($id === null || !preg_match(self::DERIVED, $id) && self::isName($id, 128), 'an id must have 1 to 128 bytes of UTF-8 without white space and control characters, and must not look like 1700000000000-0');
        self::check($batch === null || self::isName($batch, 100), 'the name of a batch must have 1 to 100 bytes of UTF-8 without white space and control characters');
        self::check($maxAttempts === null || $maxAttempts >= 1 && $maxAttempts <= 4_294_967_295, 'maxAttempts must be from 1 to 4294967295');
        self::check($delay === null || $runAt === null, 'a job may have a delay or a runAt, but not both');
        self::check($tracking === null || in_array($tracking, self::TRACKING, true), 'tracking must be all, failures or none');
        self::check($unique !== null || $uniqueScope === null && $uniqueMode === null, 'uniqueScope and uniqueMode need unique');
        $this->uniqueScope = Time::lengthText($uniqueScope, 'uniqueScope');
        $this->lane = self::lane($lane, $priority);
        $plain = self::encode($payload, $encoding);
        [$codec, $this->bytes] = $codecs?->encodePayload($type, $encoding ?? 'json', $plain) ?? [null, $plain];
        $this->encoding = $codec === null ? $encoding : 'raw';
        $this->isEncoded = $codecs !== null;
        self::check(strlen($this->bytes) <= self::MOST_BYTES, self::TOO_LARGE);
        $timeoutMs = $timeout === null ? null : Time::lengthMs($timeout, 'timeout');
        self::check($timeoutMs === null || $timeoutMs >= 1 && $timeoutMs <= self::LONGEST_TIMEOUT_MS, 'timeout must be from 0.001 to 604800 seconds');
        [$parent, $state] = $traceparent === null ? Trace::current() : [$traceparent, null];
        $headers += $state === null ? [] : [Trace::STATE => $state];
        self::check($codecs === null || !isset($headers[Codecs\Header::NAME]), self::OWN_HEADER);
        self::check($codecs === null || $uniqueMode !== 'debounce', 'a debounce replaces the payload of a job, and not its header: it does not work with codecs');
        $headers += $codec === null ? [] : [Codecs\Header::NAME => $codec];
        $fields = [
            'type' => $type,
            'payload' => $this->bytes === '' ? null : $this->bytes,
            'encoding' => $this->encoding,
            'id' => $id,
            'delay_ms' => $delay === null ? null : Time::lengthMs($delay, 'delay'),
            'run_at_ms' => $runAt === null ? null : Time::instantMs($runAt, 'runAt'),
            'expires_at_ms' => $expiresAt === null ? null : Time::instantMs($expiresAt, 'expiresAt'),
            'max_attempts' => $maxAttempts,
            'timeout_ms' => $timeoutMs,
            'tracking' => $tracking,
            'on_success' => self::type($onSuccess, 'onSuccess'),
            'on_failure' => self::type($onFailure, 'onFailure'),
            'then' => self::then($then),
            'batch' => $batch,
            'traceparent' => $parent,
        ] + self::headers($headers);
        $this->fields = array_map(strval(...), array_filter($fields, static fn (mixed $value): bool => $value !== null));
    }

    /** @internal The same job with its payload encoded, unless it was encoded before; without codecs, it is the same. */
    public function encodedBy(?Codecs $codecs): self
    {
        if ($codecs === null || $this->isEncoded) {
            return $this;
        }
        $name = 'h.' . Codecs\Header::NAME;
        self::check(!isset($this->fields[$name]), self::OWN_HEADER);
        [$codec, $bytes] = $codecs->encodePayload($this->type, $this->encoding ?? 'json', $this->bytes);
        $own = $codec === null ? [] : ['payload' => $bytes, 'encoding' => 'raw', $name => $codec];
        $values = $codec === null ? [] : ['bytes' => $bytes, 'encoding' => 'raw', 'fields' => array_filter($own, strlen(...)) + array_diff_key($this->fields, $own)];
        $values += ['isEncoded' => true];
        $encoded = (new \ReflectionClass($this))->newInstanceWithoutConstructor();
        foreach ($values + get_object_vars($this) as $name => $value) {
            $encoded->$name = $value;
        }
        return $encoded;
    }

    /**
     * The fields of the entry, without `unique`.
     *
     * @return array<string, string>
     */
    public function fields(): array
    {
        return $this->fields;
    }

    /**
     * The whole XADD.
     *
     * @return list<string>
     */
    public function command(string $namespace, string $queue): array
    {
        self::check($this->unique === null, 'a unique key is a lock, and a plain XADD cannot take it: submit this job with Streamfleet\Http or Streamfleet\Cli');
        $command = ['XADD', $namespace . ':{' . ($this->queue ?? $queue) . '}:jobs' . self::LANES[$this->lane], '*'];
        foreach ($this->fields as $name => $value) {
            array_push($command, (string) $name, $value);
        }
        return $command;
    }

    /**
     * @internal The job as a line of `enqueue --bulk`, which is a body of the HTTP API, too.
     */
    public function line(): string
    {
        $fields = $this->fields;
        self::check(!isset($fields['batch']), 'a line cannot name a batch: submit this job with Streamfleet\Producer');
        self::check(($fields['tracking'] ?? 'all') === 'all' && $this->encoding !== 'msgpack', 'a line has no tracking but all, and no MessagePack: submit this job with Streamfleet\Producer');
        $headers = [];
        foreach ($fields as $name => $value) {
            if (str_starts_with($name, 'h.')) {
                $headers[substr($name, 2)] = $value;
            }
        }
        $number = static fn (string $name): ?int => isset($fields[$name]) ? (int) $fields[$name] : null;
        $isRaw = $this->encoding === 'raw';
        self::check(!$isRaw || preg_match('//u', $this->bytes) === 1, 'a line has no raw payload that is not UTF-8: submit this job with Streamfleet\Producer');
        $line = [
            'type' => $this->type,
            'encoding' => $this->encoding,
            'id' => $this->id,
            'lane' => $this->lane,
            'delay' => $number('delay_ms'),
            'at' => Time::dateText($number('run_at_ms')),
            'expires_at' => Time::dateText($number('expires_at_ms')),
            'max_attempts' => $number('max_attempts'),
            'timeout' => $number('timeout_ms'),
            'unique' => $this->unique,
            'unique_scope' => $this->uniqueScope,
            'unique_mode' => $this->uniqueMode,
            'on_success' => $fields['on_success'] ?? null,
            'on_failure' => $fields['on_failure'] ?? null,
            'track' => isset($fields['tracking']) ? true : null,
            'traceparent' => $fields['traceparent'] ?? null,
            'headers' => $headers === [] ? null : (object) $headers,
            'payload' => $isRaw ? $this->bytes : null,
        ];
        $text = self::json(array_filter($line, static fn (mixed $value): bool => $value !== null));
        // Numbers of any size stay as they are.
        $payload = $isRaw || $this->bytes === '' ? '' : ',"payload":' . strtr($this->bytes, "\r\n", '  ');
        return substr($text, 0, -1) . $payload . (isset($fields['then']) ? ",\"then\":{$fields['then']}" : '') . '}';
    }

    /**
     * @internal The parts of a batch: its queue, the line of the job that follows, and those of its members.
     *
     * @param iterable<Submission|object> $members
     * @return array{string, string, list<string>}
     */
    public static function batch(iterable $members, object $follow, string $queue): array
    {
        $follow = Tasks::job($follow);
        self::check(array_intersect_key($follow->fields, ['delay_ms' => 1, 'run_at_ms' => 1]) === [], 'the job that follows a batch cannot have a delay');
        $queue = $follow->queue ?? $queue;
        $lines = [];
        foreach ($members as $member) {
            $member = Tasks::job($member);
            self::check(($member->queue ?? $queue) === $queue, "a batch has one queue, and this one has '$queue' and '{$member->queue}'");
            $lines[] = $member->line();
        }
        return [$queue, $follow->line(), $lines];
    }

    /** The id of the job whose entry has this id. */
    public function idOf(string $entry): string
    {
        return $this->id ?? ($this->lane === 'normal' ? $entry : "$entry-{$this->lane}");
    }

    /** Refuses a queue's name that would break a key. */
    public static function queue(string $queue): string
    {
        self::check(preg_match(self::QUEUE, $queue) === 1, "'$queue' is not a queue: " . self::QUEUE);
        return $queue;
    }

    /**
     * JSON as the fleet reads it: floats keep their value and their fraction.
     *
     * @param string $what what the value is, for the error
     */
    public static function json(mixed $value, string $what = 'the payload'): string
    {
        $precision = ini_set('serialize_precision', '-1');
        try {
            return json_encode($value, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION | JSON_THROW_ON_ERROR);
        } catch (\JsonException $error) {
            throw new InvalidSubmission("JSON cannot express $what: " . $error->getMessage(), 0, $error);
        } finally {
            if ($precision !== false) {
                ini_set('serialize_precision', $precision);
            }
        }
    }

    private static function encode(mixed $payload, ?string $encoding): string
    {
        if ($encoding === null) {
            return $payload === null ? '' : self::json($payload);
        }
        self::check(in_array($encoding, ['json', 'msgpack', 'raw'], true), 'encoding must be json, msgpack or raw');
        self::check(is_string($payload), "a payload with an encoding must be a string of encoded bytes; leave encoding out for PHP values");
        return $payload;
    }

    private static function lane(?string $lane, ?int $priority): string
    {
        self::check($lane === null || $priority === null, 'a job may have a lane or a priority, but not both');
        self::check($lane === null || isset(self::LANES[$lane]), 'lane must be high, normal or low');
        self::check($priority === null || $priority >= 1 && $priority <= 10, 'priority must be from 1 to 10');
        return match (true) {
            $priority === null => $lane ?? 'normal',
            $priority <= 3 => 'low',
            $priority <= 7 => 'normal',
            default => 'high',
        };
    }

    private static function type(?string $type, string $name): ?string
    {
        self::check($type === null || preg_match(self::TYPE, $type) === 1, "$name must be a job type: " . self::TYPE);
        return $type;
    }

    private static function then(array $then): ?string
    {
        if ($then === []) {
            return null;
        }
        self::check(array_is_list($then) && count($then) <= 64, 'then must be a list of at most 64 jobs');
        foreach ($then as $job) {
            self::check(is_array($job) && isset($job['type']) && array_diff_key($job, ['type' => 1, 'payload' => 1, 'on_failure' => 1, 'queue' => 1]) === [], 'each job of then must have a type, and may have a payload, on_failure and a queue');
            self::type($job['type'], 'the type of each job of then');
            self::type($job['on_failure'] ?? null, 'on_failure of each job of then');
            self::check(!isset($job['queue']) || is_string($job['queue']) && preg_match(self::QUEUE, $job['queue']) === 1, 'queue of each job of then must match ' . self::QUEUE);
        }
        $json = self::json($then);
        self::check(strlen($json) <= self::MOST_THEN_BYTES, 'then may have at most ' . self::MOST_THEN_BYTES . ' bytes');
        return $json;
    }

    private static function headers(array $headers): array
    {
        self::check(count($headers) <= self::MOST_HEADERS, 'a job may have at most ' . self::MOST_HEADERS . ' headers');
        $fields = [];
        foreach ($headers as $name => $value) {
            $value = is_bool($value) ? ($value ? 'true' : 'false') : (is_float($value) ? self::json($value) : $value);
            $name = (string) $name;
            self::check(is_string($value) || is_int($value), "the header '$name' is not text");
            self::check($name !== '' && strlen($name) <= 128 && strlen((string) $value) <= self::MOST_HEADER_BYTES, "the header '$name' is too long: names have 1 to 128 bytes, values at most " . self::MOST_HEADER_BYTES);
            $fields["h.$name"] = $value;
        }
        return $fields;
    }

    private static function isName(string $text, int $most): bool
    {
        return $text !== '' && strlen($text) <= $most && preg_match('/\A[^\p{Z}\p{Cc}]+\z/u', $text) === 1;
    }

    private static function check(bool $holds, string $rule): void
    {
        if (!$holds) {
            throw new InvalidSubmission($rule);
        }
    }
}
