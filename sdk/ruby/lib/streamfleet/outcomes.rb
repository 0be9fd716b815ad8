# frozen_string_literal: true

require 'json'

module Streamfleet
  # The fleet cuts errors at this length.
  MOST_ERROR_BYTES = 4096
  # The worker reads JSON that is nested up to 127 levels deep, and the line around a result is one of them.
  MOST_LEVELS = 120

  # How an attempt ended. A handler returns one, or raises it.
  class Outcome < StandardError
    # What the line of the answer has.
    def fields
      raise NotImplementedError
    end
  end

  # The job is done. The result is a JSON value; a text that is not UTF-8 is bytes.
  class Done < Outcome
    attr_reader :result

    def initialize(result = nil)
      super('done')
      @result = result
    end

    def fields
      return { outcome: 'done' } if result.nil?
      return { outcome: 'done', result_base64: [result].pack('m0') } if Wire.bytes?(result)

      { outcome: 'done', result: Wire.value(result) }
    end
  end

  # The attempt failed. The next one is due by the type's policy, and no sooner than after the delay.
  class Retry < Outcome
    attr_reader :delay

    # @param error [Exception, String]
    # @param delay [Numeric, nil] seconds
    # @param classes [Array<String>, nil] the class of the error and those above it, about which the worker's configuration may have rules
    def initialize(error, delay: nil, classes: nil)
      super(Wire.describe(error))
      @delay = delay && Wire.ms(delay, 'delay')
      @classes = classes
    end

    def fields
      { outcome: 'retry', error: message, delay_ms: delay, classes: @classes }.compact
    end
  end

  # The attempt failed, and nobody knows whether the work was done: a `once` step becomes unknown, and a person decides.
  class Unknown < Outcome
    def initialize(error)
      super(Wire.describe(error))
    end

    def fields
      { outcome: 'retry', unknown: true, error: message }
    end
  end

  # The job can never succeed: it becomes a dead letter at once.
  class Fatal < Outcome
    def initialize(error)
      super(Wire.describe(error))
    end

    def fields
      { outcome: 'fatal', error: message }
    end
  end

  # Not now: the job runs again after this many seconds, and no attempt is used.
  class Snooze < Outcome
    def initialize(delay, reason = '')
      super(reason)
      @delay = Wire.ms(delay, 'delay')
    end

    def fields
      { outcome: 'snooze', delay_ms: @delay, reason: message.empty? ? nil : Wire.cut(message) }.compact
    end
  end

  # The job is no longer wanted: it ends as cancelled, with the reason, and is not a failure.
  class Drop < Outcome
    def fields
      { outcome: 'drop', reason: Wire.cut(message) }
    end
  end

  # What goes over the pipe and to Redis.
  module Wire
    END_MS = 253_402_300_800_000

    module_function

    # A length of time in whole milliseconds.
    def ms(seconds, name)
      value = seconds.respond_to?(:to_f) && !seconds.is_a?(String) ? seconds.to_f * 1000 : nil
      return value.round if value&.finite? && value >= 0 && value < END_MS

      raise InvalidSubmission, "#{name} must be a number of seconds, such as 30 or 5.minutes, not #{seconds.inspect}"
    end

    # An instant in milliseconds since 1970.
    def instant(value, name)
      at = value.is_a?(Time) || !value.respond_to?(:to_time) ? value : value.to_time
      at = at.to_r if at.is_a?(Time)
      return (at * 1000).round if at.is_a?(Numeric) && at.to_f.finite? && at >= 0 && at * 1000 < END_MS

      raise InvalidSubmission, "#{name} must be a Time, or seconds since 1970, not #{value.inspect}"
    end

    def bytes?(value)
      value.is_a?(String) && !utf8(value)
    end

    # The text as UTF-8, or nil.
    def utf8(text)
      return text if text.encoding == Encoding::UTF_8 && text.valid_encoding?

      as = text.encoding == Encoding::BINARY ? text.dup.force_encoding(Encoding::UTF_8) : text.encode(Encoding::UTF_8)
      as.valid_encoding? ? as : nil
    rescue EncodingError
      nil
    end

    # A value as JSON has it. Anything else is an error, and no text that happens to stand for it.
    def value(value, depth = 0)
      raise ArgumentError, "it is nested more than #{MOST_LEVELS} levels deep" if depth > MOST_LEVELS

      case value
      when nil, true, false then value
      when Integer then in_64_bits(value)
      when Float then value.finite? ? value : raise(ArgumentError, "JSON has no #{value}")
      when String then utf8(value) || raise(ArgumentError, 'it has bytes inside of a value; return them alone, or as Base64')
      when Symbol then value.name
      when Array then value.map { |each| value(each, depth + 1) }
      when Hash then value.to_h { |name, each| [key(name), value(each, depth + 1)] }
      else raise ArgumentError, "JSON has no #{value.class}"
      end
    end

    def key(name)
      return name.to_s if name.is_a?(String) || name.is_a?(Symbol)

      raise ArgumentError, "a key must be a text, not #{name.inspect}"
    end

    def in_64_bits(number)
      return number if number >= -(2**63) && number < 2**64

      raise ArgumentError, "the number #{number} does not fit into 64 bits; send it as text"
    end

    def json(value)
      JSON.generate(value(value), max_nesting: MOST_LEVELS + 10)
    end

    # Cuts a text to this many bytes of UTF-8.
    def cut(text, most = MOST_ERROR_BYTES)
      text = readable(text.to_s)
      text.bytesize <= most ? text : "#{text.byteslice(0, most - 4).scrub('')} …"
    end

    # The text as UTF-8, with a sign in the place of what is none.
    def readable(text)
      utf8(text) || text.dup.force_encoding(Encoding::UTF_8).scrub
    end

    # The error first, because dead letters are grouped by it; then its causes; then the innermost lines of its stack.
    def describe(error)
      return cut(error) unless error.is_a?(Exception)

      text = head(error)
      cause = error.cause
      5.times do
        break if cause.nil?

        text += "\ncaused by #{head(cause)}"
        cause = cause.cause
      end
      frames = (error.backtrace || []).reject { |line| line.include?(__dir__) }.first(20)
      cut([cut(text, MOST_ERROR_BYTES * 3 / 4), *frames.map { |line| "  at #{readable(line)}" }].join("\n"))
    rescue StandardError
      'an error that cannot be shown'
    end

    def head(error)
      message = readable(error.message.to_s)
      message.empty? || message == error.class.name ? error.class.name.to_s : "#{error.class.name}: #{message}"
    end
  end
end
