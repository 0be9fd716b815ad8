# frozen_string_literal: true

module Streamfleet
  # A submission that breaks the wire contract. Nothing was submitted.
  class InvalidSubmission < ArgumentError
    # The fields that are wrong, if the HTTP API says so, such as `/delay`.
    attr_reader :fields

    def initialize(message, fields: [])
      super(message)
      @fields = fields
    end
  end

  # The job was not accepted, and is not to blame: the queue is full, nobody can be reached, or the token may not submit it.
  class Refused < StandardError; end

  # Nobody knows whether the job was accepted, or its durability is not confirmed. If it has an id, send it again.
  class Unconfirmed < StandardError; end

  # The job was not sent, because the connection had failed before.
  class NotSent < StandardError; end

  # Some jobs were not accepted, or nobody knows whether they were.
  class BulkError < StandardError
    # The id of each job that is known to be accepted, in the order of the submissions, and nil for the others; and why each of those is not
    # confirmed. If Redis refuses one job of a round trip, the others of it may have been accepted.
    attr_reader :ids, :errors

    def initialize(ids, errors)
      failed = errors.compact
      super("#{failed.size} of #{errors.size} jobs were not confirmed: #{failed.first.message}")
      @ids = ids
      @errors = errors
    end
  end

  # The job did not end in time. It still runs, or waits.
  class NotEnded < StandardError; end

  # The job is not known: it left no record.
  class Gone < StandardError; end

  # The job is dead or cancelled, so it has no result.
  class JobFailed < StandardError
    attr_reader :status

    def initialize(status)
      super("the job #{status.id} is #{status.state}: #{status.error || 'no error was recorded'}")
      @status = status
    end
  end
end
