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
    /** Of fcntl.h and sys/stat.h. */
    private const F_SETFD = 2;
    private const FD_CLOEXEC = 1;
    private const S_IFMT = 0170000;
    private const S_IFIFO = 0010000;

    private static int $longestLine = self::LONGEST_LINE;

    private string $buffer = '';
    /** Where the next line begins in it, and up to where there is no line end. */
    private int $start = 0;
    private int $searched = 0;
    private bool $ended = false;
    /** What is not written yet, and whether a coroutine writes it or reads. */
    private string $unwritten = '';
    private bool $isWriting = false;
    private bool $isReading = false;
    /** @var ?\Closure(resource, float): bool in place of stream_select */
    private ?\Closure $wait = null;

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
     * have other descriptors, which those programs do not inherit. With the extension FFI, STDIN and STDOUT stay open.
     */
    public static function open(): self
    {
        $c = self::library();
        [$in, $out] = defined('STDIN') && defined('STDOUT') ? self::copies($c) : [false, false];
        if ($in === false || $out === false) {
            throw new \LogicException('a pool worker needs the command line version of PHP, and each program has one worker');
        }
        self::redirect($c);
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

    /** What PHP itself cannot do with descriptors; null without the extension FFI. */
    private static function library(): ?\FFI
    {
        try {
            return extension_loaded('FFI') ? \FFI::cdef('int open(const char *path, int flags, ...); int dup(int file); int dup2(int from, int to);'
                . ' int fcntl(int file, int command, ...); int close(int file);') : null;
        } catch (\Throwable) {
            // The configuration of PHP forbids it.
            return null;
        }
    }

    /**
     * Copies of standard input and output that other programs do not inherit, if PHP can make them; false for one that is closed.
     *
     * @return array{resource|false, resource|false}
     */
    private static function copies(?\FFI $c): array
    {
        $copied = $c === null ? self::reopened(...) : static fn (int $descriptor, string $mode) => self::copied($c, $descriptor, $mode);
        $copies = [$copied(0, 'r'), $copied(1, 'w')];
        if (in_array(null, $copies, true)) {
            fwrite(STDERR, "Programs that a handler starts inherit the pipes to the worker, so they could read jobs and answer them: install the extension ffi\n");
            $copies = [fopen('php://fd/0', 'r'), fopen('php://fd/1', 'w')];
        }
        return $copies;
    }

    /**
     * A copy of a descriptor that other programs do not inherit.
     *
     * @return resource|false|null
     */
    private static function copied(\FFI $c, int $descriptor, string $mode)
    {
        // A descriptor that is opened gets the lowest free number, so the copy gets the one that is free again.
        $number = $c->dup($descriptor);
        $c->close($number);
        $copy = fopen("php://fd/$descriptor", $mode);
        return $copy === false || $c->fcntl($number, self::F_SETFD, self::FD_CLOEXEC) === 0 ? $copy : null;
    }

    /**
     * The pipe of a descriptor, opened once more, so that other programs do not inherit it.
     *
     * @return resource|null
     */
    private static function reopened(int $descriptor, string $mode)
    {
        $stream = $descriptor === 0 ? STDIN : STDOUT;
        if (!is_resource($stream) || ((fstat($stream)['mode'] ?? 0) & self::S_IFMT) !== self::S_IFIFO) {
            return null;
        }
        // PHP reads links by itself, and looks for a file with the name of the pipe. It does not if it remembers that the link
        // is a file, which it forgets after unlink(), but not after the end of a temporary file.
        $file = @tmpfile();
        if ($file === false) {
            return null;
        }
        $path = stream_get_meta_data($file)['uri'];
        realpath($path);
        fclose($file);
        if (!function_exists('symlink') || !@symlink("/proc/self/fd/$descriptor", $path)) {
            return null;
        }
        // PHP reads a file until it has all that was asked for, unless reading it never waits.
        $copy = @fopen($path, $mode === 'r' ? 'ren' : "{$mode}e");
        unlink($path);
        return $copy === false ? null : $copy;
    }

    /** Makes standard input end at once, and standard output standard error. */
    private static function redirect(?\FFI $c): void
    {
        static $kept = [];
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
        // Each takes the place of the one that was closed.
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
            // Coroutines of Swoole may wait in fread, and another one that reads meanwhile would put its part before theirs.
            if ($this->ended || $this->isReading || !$this->readable($seconds) || $this->isReading) {
                return null;
            }
            $this->isReading = true;
            $part = @fread($this->in, self::CHUNK);
            $this->isReading = false;
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
        $this->unwritten .= $lines;
        if ($this->isWriting) {
            // The coroutine that waits in fwrite goes on with them, so that no line is in the middle of another one.
            return;
        }
        $this->isWriting = true;
        for ($failures = 0; $this->unwritten !== '';) {
            $written = (int) @fwrite($this->out, $this->unwritten);
            if ($written > 0) {
                $this->unwritten = substr($this->unwritten, $written);
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
        $this->isWriting = false;
    }

    /** Whether a coroutine waits until its lines are written. */
    public function isWriting(): bool
    {
        return $this->isWriting;
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

    /** Waits for lines by a function of the stream and the seconds, which returns whether there is something to read. */
    public function waitBy(\Closure $wait): void
    {
        $this->wait = $wait;
        // Another coroutine may have read what this one has waited for.
        stream_set_blocking($this->in, false);
    }

    private function readable(float $seconds): bool
    {
        if ($this->wait !== null && $seconds > 0) {
            return ($this->wait)($this->in, $seconds);
        }
        $read = [$this->in];
        $write = $except = null;
        $whole = (int) $seconds;
        return (bool) @stream_select($read, $write, $except, $whole, (int) (($seconds - $whole) * 1e6));
    }
}
