# frozen_string_literal: true

require 'json'

module Streamfleet
  # Submits jobs and looks them up, with a client of yours: of the gems `redis` or `redis-client`, or a pool of them, which has `with`.
  class Producer
    ROUND_JOBS = 500
    ROUND_BYTES = 4 * 1024 * 1024
    RECORD = %w[state type created_ms result error progress note].freeze
    FIRST_PAUSE = 0.005
    LONGEST_PAUSE = 0.25

    # @param queue [String] the queue of jobs that name none
    # @param namespace [String] `redis.namespace` of the fleet
    # @param codecs [Codecs, nil] compresses, encrypts or stores the payloads of all jobs apart
    def initialize(client, queue: 'default', namespace: 'sf', codecs: nil)
      usable = client.respond_to?(:with) || client.respond_to?(:call)
      raise ArgumentError, 'the client must be one of the gems redis or redis-client, or a pool of them' unless usable

      @client = client
      @queue = Submission.queue(queue)
      @namespace = namespace
      @codecs = codecs
    end

    # Submits a job and returns its id. Once it returns, the job is accepted.
    def enqueue(type, payload = nil, **options)
      job = Submission.new(type, payload, codecs: @codecs, **options)
      id_of(job, call(command(job)))
    end

    # Submits many jobs, each a hash with a type, in few round trips, and returns their ids in the same order. They are no transaction.
    def enqueue_many(jobs)
      submissions = jobs.each_with_index.map { |job, index| Producer.submission(job, index, @codecs) }
      ids = []
      errors = []
      rounds(submissions).each { |round| send_round(round, ids, errors) }
      raise BulkError.new(ids, errors) if errors.any?

      ids
    end

    # Reads a job's record. Nil: it left none, it has none before its first attempt, or it never existed.
    def status(id, queue: @queue)
      values = RECORD.zip(call(['HMGET', key(queue, "job:#{id}"), *RECORD])).to_h.compact
      return nil unless values.key?('state')

      values['result'] = Producer.parsed(values['result']) if values.key?('result')
      Status.new(id, **values.transform_keys(&:to_sym))
    end

    # Returns the result of a job that is done, and nil if there is none yet.
    def result(id, queue: @queue)
      status(id, queue: queue)&.value
    end

    # Waits for the end of a job that leaves a record: `tracking: 'all'`, or an id of its own.
    #
    # @raise [NotEnded] it has not ended within the timeout, in seconds
    def wait(id, timeout: 60, queue: @queue)
      deadline = now + timeout
      pause = FIRST_PAUSE
      loop do
        found = status(id, queue: queue)
        return found if found&.ended?
        raise NotEnded, not_ended(id, found) if now >= deadline

        sleep([pause, [deadline - now, 0].max].min)
        pause = [pause * 1.5, LONGEST_PAUSE].min
      end
    end

    # A job of many, given as a hash. Errors name it.
    def self.submission(job, index, codecs = nil)
      job = job.transform_keys(&:to_sym)
      Submission.new(job[:type], job[:payload], codecs: codecs, **job.except(:type, :payload))
    rescue InvalidSubmission => e
      raise InvalidSubmission, "jobs[#{index}]: #{e.message}"
    end

    def self.parsed(text)
      JSON.parse(text)
    rescue JSON::ParserError
      text
    end

    private

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def key(queue, name)
      "#{@namespace}:{#{Submission.queue(queue)}}:#{name}"
    end

    def command(job)
      unless job.once.empty?
        raise InvalidSubmission, "a plain XADD cannot carry out #{job.once.join(', ')}: submit this job with Http"
      end

      ['XADD', key(job.queue || @queue, job.lane == 'normal' ? 'jobs' : "jobs:#{job.lane}"), '*', *job.fields]
    end

    def with(&block)
      @client.respond_to?(:with) ? @client.with(&block) : yield(@client)
    end

    def call(command)
      with { |client| client.call(*command) }
    end

    def rounds(submissions)
      size = 0
      count = 0
      submissions.slice_when do |job, _|
        size += job.payload.to_s.bytesize
        count += 1
        full = size >= ROUND_BYTES || count >= ROUND_JOBS
        size = count = 0 if full
        full
      end
    end

    # A refused job stops no other. A connection that broke leaves the rest of the round unknown, and the next rounds unsent.
    def send_round(round, ids, errors)
      broken = errors.find { |error| error && !error.is_a?(NotSent) && !refusal?(error) }
      raise NotSent, "not sent after #{broken.message}" if broken

      commands = round.map { |job| command(job) }
      replies = with { |client| client.pipelined { |pipeline| commands.each { |each| pipeline.call(*each) } } }
      round.zip(replies) do |job, reply|
        ids << id_of(job, reply)
        errors << nil
      end
    rescue InvalidSubmission
      raise
    rescue StandardError => e
      round.each do
        ids << nil
        errors << e
      end
    end

    # Redis says no with a word in capitals.
    def refusal?(error)
      error.message.match?(/\A-?[A-Z][A-Z0-9]+ /)
    end

    def id_of(job, reply)
      raise reply if reply.is_a?(Exception)
      raise Unconfirmed, "XADD was answered with #{reply.inspect}, which is not the id of an entry" unless reply.to_s.match?(/\A[0-9]+-[0-9]+\z/)

      job.id || (job.lane == 'normal' ? reply.to_s : "#{reply}-#{job.lane}")
    end

    def not_ended(id, found)
      return "the job #{id} has not ended; its state is #{found.state}" if found

      "the job #{id} has no record: it has not ended, or it has succeeded and left none. To wait for such a job, submit it with tracking: 'all' or an id of its own"
    end
  end
end
