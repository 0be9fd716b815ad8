# frozen_string_literal: true

require 'json'

module Streamfleet
  # Stands for a producer in tests of an application: it checks jobs as the real one does, sends nothing, and notes them. With a worker, it runs the
  # handler at once, without pauses and delays, up to max_attempts times (once, if the job names none), and then the jobs that follow.
  class FakeProducer
    # A job that was submitted. With a worker, `outcome` is how the last attempt ended.
    Noted = Struct.new(:id, :type, :payload, :queue, :lane, :headers, :options, :state, :attempts, :outcome, :error, :result, keyword_init: true)
    MOST_FOLLOWERS = 100

    # The jobs, in the order of their submission.
    attr_reader :jobs

    def initialize(worker: nil, queue: 'default')
      @worker = worker
      @queue = queue
      @jobs = []
      @depth = 0
    end

    def enqueue(type, payload = nil, **options)
      take(type, payload, options).first.id
    end

    def enqueue_many(jobs)
      submissions = jobs.each_with_index.map { |job, index| Producer.submission(job, index) && job.transform_keys(&:to_sym) }
      submissions.map { |job| take(job[:type], job[:payload], job.except(:type, :payload)).first.id }
    end

    # Opens a batch: with a worker, its members run at once, and then the job that follows.
    def batch(name, members, follow)
      ids = members.each_with_index.map do |job, index|
        job = job.transform_keys(&:to_sym)
        take(job[:type], job[:payload], { id: "#{name}.#{index}", **job.except(:type, :payload) }).first.id
      end
      follow = follow.transform_keys(&:to_sym)
      take(follow[:type], follow[:payload], follow.except(:type, :payload)) if ids.all? { |id| find(id).state == 'done' }
      ids
    end

    def status(id, **)
      found = find(id)
      found && Status.new(id, state: found.state, type: found.type, error: found.error, result: found.result)
    end

    def result(id, **)
      status(id)&.value
    end

    # The end of a job, without waiting: in a test, nothing happens later.
    def wait(id, **)
      found = status(id)
      raise Gone, "the job #{id} is not known" if found.nil?
      raise NotEnded, "the job #{id} has not ended; its state is #{found.state}" unless found.ended?

      found
    end

    # Returns the jobs of a type whose payload has what is expected: of hashes, the named keys; what has `===` decides by itself.
    def enqueued(type = nil, expected = nil)
      jobs.select { |job| (type.nil? || job.type == type.to_s) && (expected.nil? || fits?(job.payload, expected)) }
    end

    # Fails unless there are this many such jobs.
    def assert_enqueued(type, expected = nil, times: 1)
      found = enqueued(type, expected).size
      return true if found == times

      like = expected.nil? ? '' : " with #{expected.inspect}"
      fail_with("expected #{times} #{type}#{like}, but there #{found == 1 ? 'is' : 'are'} #{found}; #{listed}")
    end

    def assert_not_enqueued(type, expected = nil)
      assert_enqueued(type, expected, times: 0)
    end

    def assert_nothing_enqueued
      jobs.empty? || fail_with("expected no job; #{listed}")
    end

    # Forgets the jobs.
    def clear
      jobs.clear
    end

    private

    def find(id)
      jobs.find { |job| job.id == id }
    end

    # Notes a job, and runs it if there is a worker. Returns it, and whether it is new.
    def take(type, payload, options)
      job = Submission.new(type, payload, **options)
      existing = same(job)
      return [existing, false] if existing

      headers = job.fields.each_slice(2).select { |name, _| name.start_with?('h.') }.to_h { |name, value| [name[2..], value] }
      json = job.encoding == 'json'
      state = options.key?(:delay) || options.key?(:run_at) ? 'scheduled' : 'waiting'
      noted = Noted.new(id: job.id || "fake-#{jobs.size + 1}", type: job.type, payload: json ? job.payload && JSON.parse(job.payload) : job.payload,
                        queue: job.queue || @queue, lane: job.lane, headers: headers, options: job.options, state: state, attempts: 0)
      jobs << noted
      run(noted) if @worker
      [noted, true]
    end

    # The job that keeps this one out; a plain XADD compares nothing.
    def same(_job)
      nil
    end

    # Runs a job as the fleet does, and then the jobs that follow it.
    def run(noted)
      raise "#{MOST_FOLLOWERS} jobs have submitted each other: do they ever end?" if (@depth += 1) > MOST_FOLLOWERS

      most = noted.options[:max_attempts] || 1
      attempt(noted, most) while noted.attempts.zero? || noted.state == 'retrying'
      follow(noted) if %w[done dead].include?(noted.state)
    ensure
      @depth -= 1
    end

    def attempt(noted, most)
      noted.attempts += 1
      job = Job.new(noted.type, noted.payload, id: noted.id, queue: noted.queue, attempt: noted.attempts, max_attempts: most, headers: noted.headers,
                                               traceparent: noted.options[:traceparent], fence: "#{noted.attempts}-0")
      noted.outcome = @worker.outcome(job)
      fields = noted.outcome.fields
      states = { 'done' => 'done', 'fatal' => 'dead', 'snooze' => 'scheduled', 'drop' => 'cancelled' }
      noted.state = states.fetch(fields[:outcome]) { noted.attempts < most ? 'retrying' : 'dead' }
      noted.error = fields[:error] || fields[:reason]
      noted.result = fields[:result_base64] ? fields[:result_base64].unpack1('m') : fields[:result] && JSON.parse(JSON.generate(fields[:result]))
    end

    def follow(noted)
      done = noted.state == 'done'
      facts = { id: noted.id, type: noted.type, state: noted.state }
      facts.merge!(done ? { result: noted.result } : { reason: noted.outcome.is_a?(Fatal) ? 'fatal' : 'exhausted', error: noted.error })
      name = noted.options[done ? :on_success : :on_failure]
      take(name, facts, { queue: noted.queue }) if name
      following, *others = done ? noted.options[:then] || [] : []
      return if following.nil?

      following = following.transform_keys(&:to_sym)
      take(following[:type], following[:payload] || facts, { queue: following[:queue] || noted.queue, on_failure: following[:on_failure], then: others.empty? ? nil : others }.compact)
    end

    def fits?(value, expected)
      case expected
      when Hash then value.is_a?(Hash) && expected.all? { |name, each| value.key?(name.to_s) && fits?(value[name.to_s], each) }
      when Array then value.is_a?(Array) && value.size == expected.size && value.zip(expected).all? { |one, each| fits?(one, each) }
      when Symbol then value == expected.name
      else expected === value
      end
    end

    def listed
      jobs.empty? ? 'nothing was submitted' : "submitted were #{jobs.map { |job| "#{job.type} #{job.payload.inspect}" }.join(', ')}"
    end

    def fail_with(message)
      kind = %w[Minitest::Assertion RSpec::Expectations::ExpectationNotMetError].find { |name| Object.const_defined?(name) }
      raise kind ? Object.const_get(kind) : StandardError, message
    end
  end

  # Stands for Http: an id is accepted once, and a unique key keeps others out until its job has ended.
  class FakeHttp < FakeProducer
    def enqueue(type, payload = nil, **options)
      noted, is_new = take(type, payload, options)
      Accepted.new(id: noted.id, state: noted.state, new?: is_new, replaced: nil, debounced?: false)
    end

    private

    def same(job)
      key = job.options[:unique]
      jobs.find do |other|
        holds = key && other.options[:unique] == key && !%w[done dead cancelled].include?(other.state)
        (job.id && other.id == job.id) || holds
      end
    end
  end
end
