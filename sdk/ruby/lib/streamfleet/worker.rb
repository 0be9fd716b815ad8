# frozen_string_literal: true

require 'json'

module Streamfleet
  # Runs handlers for a streamfleet worker, which starts this program and gives it jobs. Each job runs in one of a few threads.
  class Worker
    PROTOCOL = 1
    # For jobs that arrive while this process stops.
    LATER_MS = 1000
    # How long such a job waits for its answer, in seconds.
    HOLD = 0.5
    MOST_CLASSES = 32
    OPTIONS = { max_attempts: nil, timeout: nil, concurrency: nil, tracking: nil, on_success: nil, on_failure: nil }.freeze

    class << self
      # The worker that runs in this process.
      attr_accessor :current
    end

    def initialize
      @handlers = {}
      @options = {}
      @middleware = []
      @waiting = Thread::Queue.new
      @running = {}
      @withdrawn = {}
      @unended = 0
      @taken = 0
      @lock = Mutex.new
      @stopping = false
    end

    # Handles the jobs of a type. What the block returns is an outcome, or else the result of a success. The options are what the type needs in the
    # configuration of the worker (docs/pools.md): max_attempts, timeout, concurrency, tracking, on_success, on_failure.
    def on(type, **options, &handler)
      raise ArgumentError, "type does not match #{Submission::TYPE.source}: #{type.inspect}" unless Submission::TYPE.match?(type.to_s)
      raise ArgumentError, "the handler of #{type} must be a block" if handler.nil?
      raise ArgumentError, "#{type} has two handlers" if @handlers.key?(type.to_s)

      @options[type.to_s] = described(type, options)
      @handlers[type.to_s] = handler
      self
    end

    # Adds a block around all handlers: it gets the job, and calls the second argument. The first one is the outermost.
    def use(&middleware)
      @middleware << middleware
      self
    end

    # Decodes payloads before handlers and middleware see them: see docs/codecs.md.
    def codecs(codecs)
      @codecs = codecs
      self
    end

    # Whether this program takes no more jobs.
    def stopping?
      @stopping
    end

    # The line that says which types this program handles, and what belongs into the configuration of the worker for each.
    def describe
      JSON.generate(type: 'handlers', protocol: PROTOCOL, types: @options)
    end

    # Runs the handler of a job, with middleware, and returns the outcome that the fleet would get. For tests.
    def outcome(job)
      handler = @handlers[job.type]
      raise ArgumentError, "the worker has no handler for #{job.type}; it serves #{@handlers.keys.sort.join(', ')}" if handler.nil?

      outcome = attempted(job, handler)
      outcome.fields
      outcome
    rescue ArgumentError => e
      raise if handler.nil?

      Fatal.new("the handler's result cannot be sent: #{e.message}")
    end

    # Takes jobs until the worker wants no more.
    #
    # @param threads [Integer] the most jobs at once, if that is fewer than the pool allows
    # @param max_jobs [Integer, nil] ends the program after this many jobs; the worker starts another one
    def run(threads: 5, max_jobs: nil)
      raise ArgumentError, 'no handler is registered' if @handlers.empty?

      if ENV['STREAMFLEET_DESCRIBE'] == '1'
        Pipes.described.puts(describe)
        exit(0)
      end
      if $stdin.tty? && !Pipes.input
        warn 'This program takes jobs from a streamfleet worker: name it as the command of a pool.'
        exit(64)
      end
      Worker.current = self
      Pipes.claim
      @max_jobs = max_jobs || Float::INFINITY
      serve(threads)
    end

    private

    def described(type, options)
      options.compact.to_h do |name, value|
        text = case name
               when :max_attempts, :concurrency then value
               when :timeout then "#{Wire.ms(value, "timeout of #{type}")}ms"
               when :tracking, :on_success, :on_failure then value.to_s
               else raise ArgumentError, "a handler has no option '#{name}': #{type} may have #{OPTIONS.keys.join(', ')}"
               end
        [name.to_s, text]
      end
    end

    def serve(threads)
      @input = Pipes.input
      @output = Pipes.output
      @woken, @wake = IO.pipe
      trap('TERM') { stop }
      pool = Array.new(greet(JSON.parse(@input.gets || exit(0)), threads)) { Thread.new { work }.tap { |thread| thread.abort_on_exception = true } }
      read
      pool.each { @waiting << nil }
      pool.each(&:join)
      @output.write({ type: 'bye' })
    end

    # Takes no more jobs. A signal may come at any time, so this only writes.
    def stop
      @stopping = true
      @wake.write_nonblock('.', exception: false)
    end

    def greet(hello, threads)
      inflight = [[hello['inflight'] || 1, 1].max, threads].min
      @output.max_line = hello['max_line'] if hello['max_line']
      @output.write({ type: 'ready', protocol: PROTOCOL, types: @handlers.keys.sort, inflight: inflight, sdk: "streamfleet-ruby #{VERSION}" })
      return inflight if hello['protocol'] == PROTOCOL

      warn "the worker speaks version #{hello['protocol']} of the pool protocol, and this program version #{PROTOCOL}"
      exit!(1)
    end

    # Reads lines until no more jobs are wanted and the last one has ended. Meanwhile, running jobs may be cancelled.
    def read
      buffer = +''.b
      input = @input
      until @stopping && idle?
        ready, = IO.select([input, @woken].compact)
        @woken.read_nonblock(1024, exception: false) if ready.include?(@woken)
        next unless ready.include?(input)

        chunk = input.read_nonblock(1 << 16, exception: false)
        next if chunk == :wait_readable

        chunk.nil? ? (input = nil; stop) : buffer << chunk
        while (line = buffer.slice!(/\A[^\n]*\n/n))
          take(line)
        end
      end
    end

    def idle?
      @lock.synchronize { @unended.zero? }
    end

    def take(line)
      message = JSON.parse(line, max_nesting: false)
      case message['type']
      when 'job' then @stopping ? postpone(message) : begin_job(message)
      when 'cancel' then cancel(message)
      end
    rescue JSON::ParserError => e
      ref = line[/\A\{"type":"job","ref":"([0-9]+)"/, 1]
      ref ? answer(ref, Fatal.new("Ruby cannot read the job: #{e.message}")) : warn("a line of the worker is not JSON: #{e.message}")
    end

    def begin_job(message)
      @lock.synchronize { @unended += 1 }
      @waiting << message
      @taken += 1
      stop if @taken >= @max_jobs
    end

    # Answers a job that is not begun, some time later, because the worker sends another one at once. If this process ends first, another one has it.
    def postpone(message)
      Thread.new do
        sleep HOLD
        @output.write({ type: 'result', ref: message['ref'], outcome: 'snooze', delay_ms: LATER_MS, begun: false })
      end
    end

    # A job that has begun is asked to end. Only a job that waits for a thread can be taken back.
    def cancel(message)
      ref, reason = message.values_at('ref', 'reason')
      job = @lock.synchronize { @running[ref] || (@withdrawn[ref] = true) && nil }
      job&.cancel(reason) unless reason == 'withdrawn'
    end

    def work
      while (message = @waiting.pop)
        job = Job.of(message, @output)
        withdrawn = @lock.synchronize { @withdrawn.delete(job.ref) || ((@running[job.ref] = job) && nil) }
        withdrawn ? postpone(message) : finish(job)
        @lock.synchronize do
          @running.delete(job.ref)
          @unended -= 1
        end
        @wake.write_nonblock('.', exception: false) if @stopping
      end
    end

    def finish(job)
      outcome = job.open(@codecs) || attempted(job, @handlers[job.type])
      job.ended
      answer(job.ref, outcome)
    end

    def attempted(job, handler)
      return Retry.new("this program has no handler for #{job.type}; it serves #{@handlers.keys.sort.join(', ')}") if handler.nil?

      returned = Job.with(job) { Trace.continued(job) { call(job, handler) } }
      returned.is_a?(Outcome) ? returned : Done.new(returned)
    rescue Outcome => e
      e
    rescue StandardError, ScriptError, SystemStackError => e
      failed(job, e)
    rescue SystemExit, NoMemoryError, SignalException => e
      crash(job, e)
    end

    def call(job, handler)
      chain = @middleware.reverse.reduce(-> { handler.call(job) }) { |inner, middleware| -> { middleware.call(job, inner) } }
      chain.call
    end

    def failed(job, error)
      return Retry.new("the attempt was interrupted: #{job.cancelled}\n#{Wire.describe(error)}") if job.cancelled

      classes = error.class.ancestors.grep(Class).map(&:name).compact - %w[Object BasicObject]
      Retry.new(error, classes: classes.first(MOST_CLASSES))
    end

    # Nobody knows in what state the process is. The other jobs that run are lost.
    def crash(job, error)
      raise error if @output.nil?

      fields = Unknown.new("#{error.class} ended the program: #{error.message}").fields
      @output.write({ type: 'result', ref: job.ref, **fields, crash: true })
      exit!(1)
    end

    def answer(ref, outcome)
      written = @output.write({ type: 'result', ref: ref, **outcome.fields })
      # Another attempt would do the work again, and return the same.
      answer(ref, Fatal.new("the handler's result cannot be sent: its line is longer than the pool's max_line")) unless written
    rescue ArgumentError, JSON::GeneratorError => e
      answer(ref, Fatal.new("the handler's result cannot be sent: #{e.message}"))
    end
  end
end
