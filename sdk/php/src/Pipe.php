<?php

declare(strict_types=1);

namespace Streamfleet;

/** The two pipes between a worker of the fleet and this program: lines of JSON. It never interprets them. */
final class Pipe
{
    /** The longest line that the worker accepts, if it does not say. */
    private const LONGEST_LINE = 16 * 1024 * 1024;
    private const SHORTEST_LINE = 1024;

    private const LONGEST_TEXT = 16 * 1024;
    /** The bytes of a line besides a text, and how many bytes JSON takes for a byte of a text. */
    private const AROUND_TEXT = 400;
    private const ESCAPED = 6;
    private const CHUNK = 65536;
    private const MOST_FAILURES = 5;
    private const ENCODE = JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION;
    /** The worker's parser takes 128 levels. */
    private const DEPTH = 120;

    private static int $longestLine = self::LONGEST_LINE;

    private string $buffer = '';
    /** Where the next line begins in it, and up to where there is no line end. */
    private int $start = 0;
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
     * have other descriptors. With the extension FFI, STDIN and STDOUT stay open.
     */
    public static function open(): self
    {
        $in = fopen('php://fd/0', 'r');
        $out = fopen('php://fd/1', 'w');
        if ($in === false || $out === false || !defined('STDIN') || !defined('STDOUT')) {
            throw new \LogicException('a pool worker needs the command line version of PHP, and each program has one worker');
        }
        self::redirect();
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

    /** Makes standard input end at once, and standard output standard error. */
    private static function redirect(): void
    {
        static $kept = [];
        try {
            // PHP itself cannot replace the descriptor of a stream that stays open.
            $c = extension_loaded('FFI') ? \FFI::cdef('int open(const char *path, int flags, ...); int dup2(int from, int to); int close(int file);') : null;
        } catch (\Throwable) {
            // The configuration of PHP forbids it.
            $c = null;
        }
        if ($c !== null) {
            $null = $c->open('/dev/null', 0);
            $isDone = $null >= 0 && $c->dup2($null, 0) === 0 && $c->dup2(2, 1) === 1;
            if ($null > 2) {
                $c->close($null);
            }
            if ($isDone) {
                return;
            }
        }
        fwrite(STDERR, "PHP has no extension ffi, or may not use it, so STDIN and STDOUT are closed: use echo or STDERR. In an image of Docker: docker-php-ext-install ffi\n");
        // A descriptor that is opened gets the lowest free number, so each takes the place of the one that was closed.
        fclose(STDIN);
        $kept[] = fopen('/dev/null', 'r');
        fclose(STDOUT);
        $kept[] = fopen('php://stderr', 'w');
    }

    /**
     * The next line, without its end; null if there is none within this many seconds, if a signal arrived, or if the
     * input has ended.
     */
    public function line(float $seconds): ?string
    {
        while (($line = $this->buffered()) === null) {
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
        return $line;
    }

    /** The next line that has been read completely. */
    public function buffered(): ?string
    {
        $end = strpos($this->buffer, "\n", $this->searched);
        if ($end === false) {
            // Once for all lines of a chunk, because it copies.
            $this->buffer = substr($this->buffer, $this->start);
            $this->start = 0;
            $this->searched = strlen($this->buffer);
            return null;
        }
        $line = substr($this->buffer, $this->start, $end - $this->start);
        $this->start = $this->searched = $end + 1;
        return $line;
    }

    /** True after `buffered` has returned null, if a line has been read in part. */
    public function hasPart(): bool
    {
        return $this->searched > 0;
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

    /** Sets the longest line that the worker accepts, as it says in its greeting. */
    public static function limit(mixed $bytes): void
    {
        self::$longestLine = is_int($bytes) ? max(self::SHORTEST_LINE, $bytes) : self::LONGEST_LINE;
    }

    /**
     * One message as a line.
     *
     * @param array<string, mixed> $message
     * @param bool $isExact false to replace bytes that are not UTF-8, instead of refusing them
     * @throws \JsonException if JSON cannot express it, or the worker would not accept the line
     */
    public static function encode(array $message, bool $isExact = false): string
    {
        $flags = self::ENCODE | JSON_THROW_ON_ERROR | ($isExact ? 0 : JSON_INVALID_UTF8_SUBSTITUTE);
        $line = json_encode($message, $flags, self::DEPTH);
        if (strlen($line) > self::$longestLine) {
            throw new \JsonException('its line has ' . strlen($line) . " bytes, and the pool's max_line is " . self::$longestLine);
        }
        return "$line\n";
    }

    /** A text that is short enough for an error or a message, in a line with this many other bytes. */
    public static function cut(string $text, int $others = 0): string
    {
        $most = min(self::LONGEST_TEXT, intdiv(self::$longestLine - self::AROUND_TEXT - $others, self::ESCAPED));
        return strlen($text) > $most ? substr($text, 0, $most) . ' …' : $text;
    }

    /** Whether a line with this many bytes besides a text has room for the text. */
    public static function hasRoom(int $others): bool
    {
        return $others <= intdiv(self::$longestLine, 2);
    }

    private function readable(float $seconds): bool
    {
        $read = [$this->in];
        $write = $except = null;
        $whole = (int) $seconds;
        return (bool) @stream_select($read, $write, $except, $whole, (int) (($seconds - $whole) * 1e6));
    }
}
