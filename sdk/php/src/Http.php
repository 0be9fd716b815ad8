<?php

declare(strict_types=1);

namespace Streamfleet;

/**
 * Submits jobs by the HTTP API of `streamfleet console`, with a token in place of a login to Redis: ids are accepted once, unique
 * keys count, and each request is repeated safely after a lost reply. Needs the extension curl.
 */
final class Http implements Submitter
{
    /** How long the console waits at most in one request, in seconds. */
    private const LONGEST_WAIT = 60;
    private const FIRST_PAUSE = 0.1;
    /** A queue that is full for longer is an answer. */
    private const LONGEST_PAUSE = 2.0;
    private const NOT_CONNECTED = [CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT];
    /** About how many bytes one request has at most: the console takes 64 MiB. */
    private const ROUND_BYTES = 8 * 1024 * 1024;

    /** The connection that is kept, while no request uses it. */
    private ?\CurlHandle $idle = null;

    /**
     * @param string $url the address of the console, such as `http://127.0.0.1:9470`
     * @param string $token of `streamfleet console token`
     * @param string $queue the queue of jobs that name none
     * @param float $timeout how many seconds one request may take
     * @param int $tries how often a request is sent at most, if there is no answer
     */
    public function __construct(
        private readonly string $url,
        #[\SensitiveParameter] private readonly string $token,
        private readonly string $queue = 'default',
        private readonly float $timeout = 10.0,
        private readonly int $tries = 3,
    ) {
        if (!extension_loaded('curl')) {
            throw new \LogicException('Streamfleet\Http needs the extension curl (Debian: php-curl)');
        }
        if (preg_match('~\Ahttps?://[^/?#]+/?\z~i', $url) !== 1) {
            throw new \InvalidArgumentException("'$url' is not the address of a console, such as http://127.0.0.1:9470");
        }
        if ($token === '' || preg_match('/[^\x21-\x7e]/', $token) === 1) {
            throw new \InvalidArgumentException('the token is empty, or has white space in it: streamfleet console token prints one');
        }
        if ($timeout <= 0 || $tries < 1) {
            throw new \InvalidArgumentException('timeout must be above 0, and tries at least 1');
        }
        Submission::queue($queue);
    }

    public function enqueue(string $type, mixed $payload = null, mixed ...$options): string
    {
        return $this->submit(new Submission($type, $payload, ...$options));
    }

    public function dispatch(object $task, mixed ...$options): string
    {
        return $this->submit(Tasks::submission($task, $options));
    }

    public function submit(Submission $job): string
    {
        return $this->submitOrFind($job)->id;
    }

    /**
     * Submits a job, and says whether it is new.
     *
     * @param string|int|float|\DateInterval|null $idempotentFor for how long the id is remembered: seconds, or `24h`
     * @param ?string $durability `memory`, `replicas:N` or `aof`
     * @throws InvalidSubmission|Refused nothing was submitted
     * @throws Unconfirmed send the job again if it has an id
     */
    public function submitOrFind(Submission $job, string|int|float|\DateInterval|null $idempotentFor = null, ?string $durability = null): Accepted
    {
        $more = array_filter(['idempotent_for' => Time::lengthText($idempotentFor, 'idempotentFor'), 'durability' => $durability], is_string(...));
        $line = $job->line();
        $body = $more === [] ? $line : substr($line, 0, -1) . ',' . substr(Submission::json($more), 1);
        [, $told] = $this->request('POST', $this->path($job->queue) . '/jobs', $body, $this->key($job));
        $isDebounced = (bool) ($told['debounced'] ?? false);
        return new Accepted((string) $told['id'], (string) $told['state'], !$told['existing'] && !$isDebounced, $told['replaced'] ?? null, $isDebounced);
    }

    public function enqueueMany(iterable $jobs): array
    {
        $ids = $round = [];
        $number = $bytes = 0;
        foreach ($jobs as $key => $job) {
            // A generator may yield a key twice.
            $key = is_array($jobs) ? $key : $number++;
            $job = Tasks::job($job);
            $queue = $job->queue ?? $this->queue;
            $round[$queue][$key] = $job->line();
            $bytes += strlen($round[$queue][$key]);
            if ($bytes >= self::ROUND_BYTES) {
                $ids = $this->rounds($round, $ids);
                $round = [];
                $bytes = 0;
            }
        }
        $ids = $this->rounds($round, $ids);
        $keys = is_array($jobs) ? array_keys($jobs) : array_keys($ids);
        // Jobs of several queues come back in the order in which they were given.
        return array_replace(array_intersect_key(array_flip($keys), $ids), $ids);
    }

    /**
     * Opens a batch: submits its members, and then, when all of them have succeeded, the job that follows. After an error, call it
     * again with the same members in the same order: no member is accepted twice.
     *
     * @param string $name its name, such as `invoices-2026-11`
     * @param iterable<Submission|object> $members submissions or tasks, all of one queue
     * @return list<string> their ids: `<name>.<number>`, unless a member has one
     * @throws InvalidSubmission|Refused nothing was submitted
     * @throws Unconfirmed some members may have been submitted: call it again
     */
    public function batch(string $name, iterable $members, object $follow): array
    {
        [$queue, $follow, $lines] = Submission::batch($members, $follow, $this->queue);
        $body = "{\"follow\":$follow,\"members\":[" . implode(',', $lines) . ']}';
        [, $told] = $this->request('PUT', $this->path($queue) . '/batches/' . rawurlencode($name), $body, []);
        return $told['ids'];
    }

    public function status(string $id, ?string $queue = null): ?Status
    {
        return $this->job($id, $queue, 0);
    }

    public function result(string $id, ?string $queue = null): mixed
    {
        return $this->status($id, $queue)?->result();
    }

    public function wait(string $id, int|float $seconds, ?string $queue = null): ?Status
    {
        $end = hrtime(true) + (int) ($seconds * 1e9);
        do {
            $left = max(0.0, ($end - hrtime(true)) / 1e9);
            $status = $this->job($id, $queue, (int) ceil(min($left, self::LONGEST_WAIT) * 1000));
            if ($status?->isFinal()) {
                return $status;
            }
            // A job without a record is known only while it waits or runs.
            usleep($status === null ? (int) (min($left, self::FIRST_PAUSE) * 1e6) : 0);
        } while (hrtime(true) < $end);
        return null;
    }

    private function job(string $id, ?string $queue, int $waitMs): ?Status
    {
        // Clients remove a part of a path that is dots alone.
        $name = rawurlencode($id === '.' || $id === '..' ? "$id " : $id);
        $query = $waitMs > 0 ? "?wait={$waitMs}ms" : '';
        [$code, $told] = $this->request('GET', $this->path($queue) . "/jobs/$name$query", null, [], $waitMs / 1000);
        return $code === 404 ? null : Status::told($told);
    }

    /**
     * @param array<string, array<int|string, string>> $rounds queue → key → line
     * @param array<int|string, string> $ids those of earlier rounds
     * @return array<int|string, string> all ids
     */
    private function rounds(array $rounds, array $ids): array
    {
        $refused = $unknown = [];
        foreach ($rounds as $queue => $lines) {
            [$accepted, $no, $perhaps] = $this->round($queue, $lines);
            $ids += $accepted;
            $refused += $no;
            $unknown += $perhaps;
        }
        if ($refused !== [] || $unknown !== []) {
            throw new BulkError($ids, $refused, $unknown);
        }
        return $ids;
    }

    /**
     * Submits lines in one request.
     *
     * @param array<int|string, string> $lines
     * @return array{array<int|string, string>, array<int|string, string>, array<int|string, string>} ids, why refused, why unknown
     */
    private function round(string $queue, array $lines): array
    {
        $keys = array_keys($lines);
        $headers = ['Idempotency-Key: ' . bin2hex(random_bytes(16))];
        try {
            [, , $text] = $this->request('POST', $this->path($queue) . '/jobs', implode("\n", $lines), $headers, isMany: true);
        } catch (Unconfirmed $error) {
            return [[], [], array_fill_keys($keys, $error->getMessage())];
        } catch (SubmitError|InvalidSubmission $error) {
            return [[], array_fill_keys($keys, $error->getMessage()), []];
        }
        $ids = $refused = $unknown = [];
        $end = null;
        foreach (explode("\n", trim($text)) as $line) {
            $told = (array) json_decode($line, true, 512, JSON_BIGINT_AS_STRING);
            $key = isset($told['line']) ? $keys[$told['line'] - 1] : null;
            if ($key === null) {
                $end = $told['problem'] ?? null;
            } elseif (isset($told['id'])) {
                $ids[$key] = (string) $told['id'];
            } elseif (($told['problem']['status'] ?? 0) === 503) {
                $unknown[$key] = self::reason($told['problem']);
            } else {
                $refused[$key] = self::reason($told['problem'] ?? []);
            }
        }
        $others = array_diff($keys, array_keys($ids), array_keys($refused), array_keys($unknown));
        return [$ids, $refused, $unknown + array_fill_keys($others, self::reason($end ?? ['detail' => 'the answer broke off']))];
    }

    /** @return list<string> what lets the console tell that a request is repeated */
    private function key(Submission $job): array
    {
        return $job->id === null ? ['Idempotency-Key: ' . bin2hex(random_bytes(16))] : [];
    }

    private function path(?string $queue): string
    {
        return '/api/v1/queues/' . Submission::queue($queue ?? $this->queue);
    }

    /**
     * Sends a request until there is an answer. Repeating it is safe: each has an id or a key.
     *
     * @param list<string> $headers
     * @param float $wait how much longer than usual the answer may take
     * @return array{int, array<string, mixed>, string} the status, the answer as JSON, and as text
     */
    private function request(string $method, string $path, ?string $body, array $headers, float $wait = 0.0, bool $isMany = false): array
    {
        $headers[] = 'Content-Type: ' . ($isMany ? 'application/x-ndjson' : 'application/json');
        $wasSent = false;
        $pause = self::FIRST_PAUSE;
        for ($try = 1;; $try += 1, $pause *= 3) {
            [$code, $text, $error, $retryAfter] = $this->send($method, $path, $body, $headers, $wait);
            $isBusy = $code === 429 && ($retryAfter ?? 0.0) <= self::LONGEST_PAUSE;
            $isLost = $code === 0 || in_array($code, [502, 503], true);
            $wasSent = $wasSent || $isLost && !in_array($error, self::NOT_CONNECTED, true);
            if (!$isLost && !$isBusy || $try >= $this->tries) {
                break;
            }
            usleep((int) (($isBusy ? $retryAfter ?? $pause : $pause) * 1e6));
        }
        $told = json_decode($text, true, 512, JSON_BIGINT_AS_STRING);
        $told = is_array($told) ? $told : [];
        if ($code < 300 && ($isMany || $told !== []) || $code === 404 && $method === 'GET') {
            return [$code, $told, $text];
        }
        throw $this->problem($code, $code === 0 ? ['detail' => $text] : $told, $wasSent && $method !== 'GET', $path);
    }

    /**
     * @param list<string> $headers
     * @return array{int, string, int, ?float} the status, or 0; the body, or the error; the number of the error; when to try again
     */
    private function send(string $method, string $path, ?string $body, array $headers, float $wait): array
    {
        $curl = $this->idle ?? curl_init();
        $this->idle = null;
        $retryAfter = null;
        curl_reset($curl);
        curl_setopt_array($curl, [
            CURLOPT_URL => rtrim($this->url, '/') . $path,
            CURLOPT_CUSTOMREQUEST => $method,
            CURLOPT_HTTPHEADER => ["Authorization: Bearer {$this->token}", 'Expect:', ...$headers],
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_NOSIGNAL => true,
            CURLOPT_CONNECTTIMEOUT_MS => (int) ceil($this->timeout * 1000),
            CURLOPT_TIMEOUT_MS => (int) ceil(($this->timeout + $wait) * 1000),
            CURLOPT_HEADERFUNCTION => static function (\CurlHandle $curl, string $line) use (&$retryAfter): int {
                if (preg_match('/\Aretry-after: *(\d+)/i', $line, $found) === 1) {
                    $retryAfter = (float) $found[1];
                }
                return strlen($line);
            },
        ] + ($body === null ? [] : [CURLOPT_POSTFIELDS => $body]));
        $text = curl_exec($curl);
        $error = curl_errno($curl);
        if ($text === false || $error !== 0) {
            // A late answer must not be taken for that of the next request.
            return [0, curl_error($curl), $error, null];
        }
        $this->idle = $curl;
        return [(int) curl_getinfo($curl, CURLINFO_RESPONSE_CODE), (string) $text, 0, $retryAfter];
    }

    /** @param array<string, mixed> $told the problem document */
    private function problem(int $code, array $told, bool $mayBeAccepted, string $path): SubmitError|InvalidSubmission
    {
        $why = self::reason($told);
        return match (true) {
            $mayBeAccepted => new Unconfirmed("the console at {$this->url} did not confirm the job: $why"),
            $code === 0 => new Refused("the console at {$this->url} cannot be reached: $why"),
            $code === 504 => new Unconfirmed("the job is accepted, but its durability is not confirmed: $why"),
            in_array($code, [400, 413, 415, 422], true) => new InvalidSubmission($why),
            $code === 401 => new Refused("the console at {$this->url} does not know the token: put the hash that streamfleet console token printed with it into the file of accounts ($why)"),
            $code === 403 => new Refused("the token may not do this: it needs the role submitter on the queue, and payloads = true to see results ($why)"),
            default => new Refused($code < 300 ? "$path was answered with something else than JSON: is {$this->url} a streamfleet console?" : "the console answered with $code: $why"),
        };
    }

    /** @param array<string, mixed> $problem */
    private static function reason(array $problem): string
    {
        return (string) ($problem['detail'] ?? $problem['title'] ?? 'no reason was given');
    }
}
