# frozen_string_literal: true

module Streamfleet
  # The attempt that a handler runs. Tests create one with a type and a payload.
  class Job
    LEVELS = %w[debug info warn error].freeze
    PROGRESS_EVERY = 0.1

    attr_reader :type, :payload, :id, :queue, :attempt, :max_attempts, :created_at, :headers, :encoding, :step, :results, :fence, :traceparent, :tracestate,
                :cancelled, :message

    # The job for which this thread runs.
    def self.current
      Thread.current.thread_variable_get(:streamfleet_job)
    end

    # Runs a block as the handler of a job.
    def self.with(job)
      before = current
      Thread.current.thread_variable_set(:streamfleet_job, job)
      yield
    ensure
      Thread.current.thread_variable_set(:streamfleet_job, before)
    end

    def initialize(type, payload = nil, id: 'test', queue: 'default', attempt: 1, max_attempts: nil, created_ms: nil, headers: {}, encoding: 'json', step: nil,
                   results: {}, fence: nil, traceparent: nil, timeout: nil, message: {}, output: nil)
      @type = type
      @payload = payload
      @id = id
      @queue = queue
      @attempt = attempt
      @max_attempts = max_attempts
      @created_at = created_ms && Time.at(created_ms / 1000.0)
      @headers = headers
      @encoding = encoding
      @step = step
      @results = results
      @fence = fence
      @traceparent = traceparent
      @tracestate = Trace.state(headers['tracestate'])
      @deadline = timeout && (now + timeout)
      @message = message
      @output = output
      @reported = -PROGRESS_EVERY
    end

    # A job of a line of the worker.
    def self.of(message, output)
      base64 = message['payload_base64']
      results = (message['results'] || {}).transform_values { |result| Status.bytes_or(result) }
      new(message['job_type'], base64 ? base64.unpack1('m') : message['payload'],
          id: message['id'], queue: message['queue'], attempt: message['attempt'] || 1, max_attempts: message['max_attempts'], created_ms: message['created_ms'],
          headers: message['headers'] || {}, encoding: message['encoding'] || 'json', step: message['step'], results: results, fence: message['fence'],
          traceparent: message['traceparent'], timeout: message['timeout_ms'] && (message['timeout_ms'] / 1000.0), message: message, output: output)
    end

    def ref
      message['ref']
    end

    # How many seconds are left of the attempt's timeout; nil if it has none.
    def remaining
      @deadline && [@deadline - now, 0].max
    end

    # Asks the attempt to end, as the worker does: `cancelled`, `timeout`, `shutdown` or `lost`.
    def cancel(reason = 'cancelled')
      @cancelled ||= reason
    end

    # Reports progress: 0 to 100, and a short text.
    def progress(percent = nil, text = nil)
      early = percent != 100 && now - @reported < PROGRESS_EVERY
      return if @output.nil? || early

      @reported = now
      percent = percent&.to_f&.clamp(0, 100)&.round(2)
      @output.write({ type: 'progress', ref: ref, percent: percent, message: text && Wire.cut(text, 8192) }.compact)
    end

    # Logs a line that the job's record keeps.
    def log(text, level = 'info', **fields)
      raise ArgumentError, "level must be debug, info, warn or error, not #{level.inspect}" unless LEVELS.include?(level.to_s)

      line = { type: 'log', ref: ref, level: level.to_s, message: Wire.cut(text, 8192) }
      line[:fields] = fields.transform_values { |value| plain(value) } unless fields.empty?
      @output&.write(line)
    end

    # Decodes the payload, so that the job is as if it had never been encoded. Returns what becomes of the job if that is not possible.
    def open(codecs)
      header = headers['codec']
      # Without codecs, a header of this name may mean something else.
      return nil if header.nil? || (codecs.nil? && (encoding != 'raw' || Codecs::Header.parse(header).nil?))
      return Retry.new("the payload is encoded (#{header}), and this program has no codecs: call Worker#codecs") if codecs.nil?

      plain, bytes = codecs.decode_payload(type, header, encoding == 'raw' ? payload : '', encoding)
      @payload = value(plain, bytes)
      @encoding = plain
      @headers = headers.except('codec')
      nil
    rescue CodecError => e
      Retry.new("CodecError: #{e.message}")
    end

    # What the handler says after its end is about nothing.
    def ended
      @output = nil
    end

    private

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    # JSON as the worker would have sent it; other bytes stay bytes.
    def value(encoding, bytes)
      text = case encoding
             when 'json' then bytes.empty? ? 'null' : Wire.utf8(bytes)
             when 'msgpack' then Codecs::MessagePack.json(bytes)
             end
      text ? JSON.parse(text, max_nesting: false) : bytes
    rescue JSON::ParserError, ArgumentError
      bytes
    end

    def plain(value)
      Wire.value(value)
    rescue ArgumentError
      Wire.cut(value.inspect, 8192)
    end
  end
end
