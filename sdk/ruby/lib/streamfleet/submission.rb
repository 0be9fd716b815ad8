# frozen_string_literal: true

require 'json'

module Streamfleet
  # A job before it is sent: checked by the wire contract, as the fields of an entry or as a line of JSON.
  class Submission
    TYPE = /\A[a-z0-9][a-z0-9._-]{0,127}\z/
    QUEUE = /\A[a-z0-9][a-z0-9_-]{0,63}\z/
    ENTRY = /\A[0-9]+-[0-9]+(-(high|low))?\z/
    MOST_PAYLOAD_BYTES = 8 * 1024 * 1024
    MOST_FIELDS = 1000
    MOST_HEADER_BYTES = 8192
    MOST_THEN = 64
    MOST_THEN_BYTES = 64 * 1024
    LONGEST_TIMEOUT_MS = 604_800_000
    OPTIONS = %i[queue lane priority delay run_at expires_at id headers max_attempts timeout tracking on_success on_failure then batch traceparent
                 tracestate encoding unique unique_scope unique_mode idempotent_for durability codecs].freeze
    # Only a script of the fleet can do these.
    ONCE = %i[unique unique_scope unique_mode idempotent_for durability].freeze
    # What other queues call it.
    MEANT = { attempts: 'max_attempts', retry: 'max_attempts', wait: 'delay', wait_until: 'run_at', at: 'run_at', job_id: 'id', jid: 'id',
              args: 'payload' }.freeze

    attr_reader :type, :queue, :lane, :id, :payload, :encoding, :options

    def initialize(type, payload = nil, **options)
      check_names(options)
      @options = Trace.options(options.compact)
      @type = typed(type, 'type')
      @queue = @options[:queue]&.then { |queue| self.class.queue(queue) }
      @lane = lane_of(@options[:lane]&.to_s, @options[:priority])
      @encoding = @options.fetch(:encoding, 'json').to_s
      @payload = encoded(payload)
      seal(@options[:codecs]) if @options.key?(:codecs)
      check((@payload || '').bytesize <= MOST_PAYLOAD_BYTES) { too_large }
      @id = @options[:id]&.then { |id| own_id(id.to_s) }
      check(!(@options.key?(:delay) && @options.key?(:run_at))) { 'a job may have a delay or a run_at, but not both' }
      @terms = terms
      @headers = headers
      check(fields.size / 2 <= MOST_FIELDS) { "a job may have at most #{MOST_FIELDS} fields" }
    end

    def self.queue(name)
      return name.to_s if QUEUE.match?(name.to_s)

      raise InvalidSubmission, "queue does not match #{QUEUE.source}: #{name.inspect}"
    end

    # The names and values of an entry.
    def fields
      @fields ||= all_fields
    end

    # The options that a plain XADD cannot carry out.
    def once
      ONCE.select { |name| options.key?(name) }
    end

    # The job as the HTTP API takes it.
    def line
      check(!options.key?(:batch) && [nil, 'all'].include?(@terms[:tracking])) { 'the HTTP API has no field batch, and no tracking but all: submit this job with Producer' }
      check(encoding != 'msgpack') { 'the HTTP API takes JSON or raw bytes, and no MessagePack' }
      fields = { lane: lane, type: type, id: id, encoding: encoding == 'json' ? nil : encoding, headers: @headers.empty? ? nil : @headers, **terms_of_line, **once_of_line }
      text = JSON.generate(fields.compact)
      parts = [payload && "\"payload\":#{payload_of_line}", @terms[:then] && "\"then\":#{@terms[:then]}"].compact
      parts.empty? ? text : "#{text.chop},#{parts.join(',')}}"
    end

    private

    def all_fields
      all = ['type', type]
      all.push('payload', payload) if payload
      all.push('encoding', encoding) if encoding != 'json'
      all.push('id', id) if id
      @terms.each { |name, value| all.push(name.to_s, value.to_s) }
      @headers.each { |name, value| all.push("h.#{name}", value) }
      all
    end

    # The text of a rule is made only if it is broken.
    def check(holds)
      raise InvalidSubmission, yield unless holds
    end

    def check_names(options)
      other = (options.keys - OPTIONS).first
      check(other.nil?) { "there is no option '#{other}'#{"; use #{MEANT[other]}" if MEANT.key?(other)}" }
      check(options[:unique] || !(options[:unique_scope] || options[:unique_mode])) { 'unique_scope and unique_mode need unique' }
    end

    def typed(value, name)
      check(TYPE.match?(value.to_s)) { "#{name} does not match #{TYPE.source}: #{value.inspect}" }
      value.to_s
    end

    def own_id(id)
      check(!ENTRY.match?(id)) { "an id of your own must not look like that of a stream entry: #{id.inspect}" }
      named(id, 'id', 128)
    end

    def named(value, name, most)
      text = value.to_s
      fits = Wire.utf8(text) && !text.empty? && text.bytesize <= most && !text.match?(/[[:space:][:cntrl:]]/)
      check(fits) { "#{name} must be a text of 1 to #{most} bytes without white space and control characters, not #{value.inspect}" }
      text
    end

    def lane_of(lane, priority)
      check(lane.nil? || priority.nil?) { 'a job may have a lane or a priority, but not both' }
      check([nil, 'high', 'normal', 'low'].include?(lane)) { "lane must be high, normal or low, not #{lane.inspect}" }
      return lane || 'normal' if priority.nil?

      whole(priority, 'priority', 1, 10)
      if priority >= 8 then 'high'
      else priority >= 4 ? 'normal' : 'low'
      end
    end

    def whole(value, name, least, most)
      check(value.is_a?(Integer) && value.between?(least, most)) { "#{name} must be a whole number from #{least} to #{most}, not #{value.inspect}" }
      value
    end

    def encoded(payload)
      check(%w[json msgpack raw].include?(encoding)) { "encoding must be json, msgpack or raw, not #{encoding.inspect}" }
      check(encoding == 'json' || payload.is_a?(String)) { "a payload with the encoding #{encoding} must be a text of bytes" }
      encoding == 'json' ? (payload.nil? ? nil : json(payload, 'the payload')) : payload.b
    end

    # Lets codecs compress the payload, encrypt it, and store it apart.
    def seal(codecs)
      check(!(options[:headers] || {}).any? { |name, _| name.to_s == Codecs::NAME }) { "the header #{Codecs::NAME} belongs to codecs: leave it out" }
      check(options[:unique_mode].to_s != 'debounce') { 'a debounce replaces the payload of a job, and not its header: it does not work with codecs' }
      @codec, bytes = codecs.encode_payload(type, encoding, payload || '')
      @payload, @encoding = bytes, 'raw' if @codec
    end

    def too_large
      "the payload has #{payload.bytesize} bytes; the most is #{MOST_PAYLOAD_BYTES}: store it elsewhere, and send its address, or let Codecs do so"
    end

    def json(value, name)
      Wire.json(value)
    rescue ArgumentError => e
      raise InvalidSubmission, "#{name} cannot be sent as JSON: #{e.message}"
    end

    def terms
      all = {}
      add = ->(field, name, &value) { all[field] = value.call(options[name]) if options.key?(name) }
      add.call(:delay_ms, :delay) { |delay| Wire.ms(delay, 'delay') }
      add.call(:run_at_ms, :run_at) { |at| Wire.instant(at, 'run_at') }
      add.call(:expires_at_ms, :expires_at) { |at| Wire.instant(at, 'expires_at') }
      add.call(:max_attempts, :max_attempts) { |most| whole(most, 'max_attempts', 1, 4_294_967_295) }
      add.call(:timeout_ms, :timeout) { |timeout| whole(Wire.ms(timeout, 'timeout'), 'timeout in milliseconds', 1, LONGEST_TIMEOUT_MS) }
      add.call(:tracking, :tracking) { |tracking| one_of(tracking.to_s, 'tracking', %w[all failures none]) }
      add.call(:on_success, :on_success) { |name| typed(name, 'on_success') }
      add.call(:on_failure, :on_failure) { |name| typed(name, 'on_failure') }
      add.call(:then, :then) { |jobs| chain(jobs) }
      add.call(:batch, :batch) { |name| named(name, 'batch', 100) }
      add.call(:traceparent, :traceparent) { |trace| named(trace, 'traceparent', 128) }
      all
    end

    def one_of(value, name, all)
      check(all.include?(value)) { "#{name} must be #{all[..-2].join(', ')} or #{all.last}, not #{value.inspect}" }
      value
    end

    def chain(jobs)
      check(jobs.is_a?(Array) && jobs.size <= MOST_THEN) { "then must be an array of at most #{MOST_THEN} jobs" }
      lines = jobs.map do |job|
        other = (job.keys.map(&:to_sym) - %i[type payload on_failure queue]).first
        check(other.nil?) { "a job in then may have type, payload, on_failure and queue, but not '#{other}'" }
        job = job.transform_keys(&:to_sym)
        typed(job[:type], 'the type of a job in then')
        typed(job[:on_failure], 'on_failure of a job in then') if job[:on_failure]
        self.class.queue(job[:queue]) if job[:queue]
        job.compact
      end
      json(lines, 'then').tap { |text| check(text.bytesize <= MOST_THEN_BYTES) { "then has more than #{MOST_THEN_BYTES} bytes" } }
    end

    # `tracestate` travels as a header. One that breaks the standard is left out, as the standard says.
    def headers
      given = (options[:headers] || {}).to_h { |name, value| [name.to_s, value] }
      state = Trace.state(options[:tracestate])
      given['tracestate'] ||= state if state
        given[Codecs::NAME] = @codec if @codec
      given.to_h do |name, value|
        check([String, Symbol, Numeric, true, false].any? { |kind| kind === value }) { "the header '#{name}' must be a text, a number or a boolean, not #{value.inspect}" }
        text = value.to_s
        check(name.bytesize.between?(1, 128) && text.bytesize <= MOST_HEADER_BYTES) { "the header '#{Wire.cut(name, 200)}' is too long: a name has 1 to 128 bytes, a value at most #{MOST_HEADER_BYTES}" }
        [name, text]
      end
    end

    def payload_of_line
      return payload if encoding == 'json'

      text = Wire.utf8(payload)
      check(text) { 'the HTTP API takes raw payloads only if they are UTF-8' }
      JSON.generate(text)
    end

    def terms_of_line
      named = @terms.slice(:max_attempts, :on_success, :on_failure, :traceparent)
      at = ->(ms) { ms && Time.at(ms / 1000, ms % 1000, :millisecond).utc.strftime('%Y-%m-%dT%H:%M:%S.%LZ') }
      { delay: @terms[:delay_ms], timeout: @terms[:timeout_ms], at: at.call(@terms[:run_at_ms]), expires_at: at.call(@terms[:expires_at_ms]),
        track: @terms[:tracking] && true, **named }
    end

    def once_of_line
      scope = options[:unique_scope]
      scope = "#{Wire.ms(scope, 'unique_scope')}ms" unless [nil, String, Symbol].any? { |kind| kind === scope }
      kept = options[:idempotent_for] && Wire.ms(options[:idempotent_for], 'idempotent_for')
      { unique: options[:unique]&.to_s, unique_scope: scope&.to_s, unique_mode: options[:unique_mode]&.to_s, idempotent_for: kept, durability: options[:durability]&.to_s }
    end
  end
end
