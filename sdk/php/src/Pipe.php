<?php

declare(strict_types=1);

namespace Streamfleet;

/** The two pipes between a worker of the fleet and this program: lines of JSON. It never interprets them. */
final class Pipe
{
    /** The longest line that the worker accepts. */
    public const LONGEST_LINE = 16 * 1024 * 1024;

    private const LONGEST_TEXT = 16 * 1024;
    private const CHUNK = 65536;
    private const MOST_FAILURES = 5;
    private const ENCODE = JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION
        | JSON_INVALID_UTF8_SUBSTITUTE;
    /** The worker's parser takes 128 levels. */
    private const DEPTH = 120;

    private string $buffer = '';
    private int $searched = 0;
    private bool $ended = false;

    /**
     * @param resource $in lines from the worker
     * @param resource $out lines to the worker
     */
    private function __construct(private $in, private $out)
    {
        stream_set_read_buffer($in, 0);
        stream_set_write_buffer($out, 0);
    }

    /**
     * Takes over standard input and output. From here on, whatever prints to standard output, including programs that a
     * handler starts, prints to standard error, and whatever reads from standard input finds its end. The protocol's pipes
     * have other descriptors.
     */
    public static function open(): self
    {
        static $kept = [];
        $in = fopen('php://fd/0', 'r');
        $out = fopen('php://fd/1', 'w');
        if ($in === false || $out === false || !defined('STDIN') || !defined('STDOUT')) {
            throw new \LogicException('a pool worker needs the command line version of PHP, and each program has one worker');
        }
        // A descriptor that is opened gets the lowest free number, so each takes the place of the one that was closed.
        fclose(STDIN);
        $kept[] = fopen('/dev/null', 'r');
        fclose(STDOUT);
        $kept[] = fopen('php://stderr', 'w');
        if (is_link('/proc/self/fd/1') && readlink('/proc/self/fd/1') !== readlink('/proc/self/fd/2')) {
            throw new \LogicException('standard output could not be redirected; create the worker before anything closes standard input or output');
        }
        ini_set('display_errors', 'stderr');
        ini_set('html_errors', '0');
        if ((string) ini_get('error_log') === '') {
            ini_set('log_errors', '0');
        }
        return new self($in, $out);
    }

    /**
     * The next line, without its end; null if there is none within this many seconds, if a signal arrived, or if the
     * input has ended.
     */
    public function line(float $seconds): ?string
    {
        while (true) {
            $end = strpos($this->buffer, "\n", $this->searched);
            if ($end !== false) {
                $line = substr($this->buffer, 0, $end);
                $this->buffer = substr($this->buffer, $end + 1);
                $this->searched = 0;
                return $line;
            }
            $this->searched = strlen($this->buffer);
            if ($this->ended || !$this->readable($seconds)) {
                return null;
            }
            $part = @fread($this->in, self::CHUNK);
            if ($part === false || $part === '') {
                $this->ended = feof($this->in);
                return null;
            }
            $this->buffer .= $part;
        }
    }

    /** True after the last line has been read. */
    public function ended(): bool
    {
        return $this->ended;
    }

    /** Writes complete lines. Without a worker that reads them, the program has no purpose, and ends. */
    public function write(string $lines): void
    {
        for ($failures = 0; $lines !== '';) {
            $written = (int) @fwrite($this->out, $lines);
            if ($written > 0) {
                $lines = substr($lines, $written);
                $failures = 0;
            } elseif ($failures < self::MOST_FAILURES) {
                // Perhaps a signal has interrupted it, or somebody has made the pipe one that does not wait. A pipe that nobody
                // reads is always writable, and always fails.
                $none = null;
                $write = [$this->out];
                $failures += (int) @stream_select($none, $write, $none, 1);
            } else {
                fwrite(STDERR, "the streamfleet worker is gone\n");
                exit(1);
            }
        }
    }

    /**
     * One message as a line.
     *
     * @param array<string, mixed> $message
     * @throws \JsonException if JSON cannot express it
     */
    public static function encode(array $message): string
    {
        $line = json_encode($message, self::ENCODE | JSON_THROW_ON_ERROR, self::DEPTH) . "\n";
        if (strlen($line) > self::LONGEST_LINE) {
            throw new \JsonException('it has ' . strlen($line) . ' bytes, and a line has at most ' . self::LONGEST_LINE);
        }
        return $line;
    }

    /** A text that is short enough for an error or a message. */
    public static function cut(string $text): string
    {
        return strlen($text) > self::LONGEST_TEXT ? substr($text, 0, self::LONGEST_TEXT) . ' …' : $text;
    }

    private function readable(float $seconds): bool
    {
        $read = [$this->in];
        $write = $except = null;
        $whole = (int) $seconds;
        return (bool) @stream_select($read, $write, $except, $whole, (int) (($seconds - $whole) * 1e6));
    }
}
