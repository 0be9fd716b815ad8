# frozen_string_literal: true

require 'active_job'
require 'streamfleet'

module ActiveJob
  module QueueAdapters
    # Submits the jobs of ActiveJob to a fleet: `config.active_job.queue_adapter = :streamfleet`.
    class StreamfleetAdapter < (defined?(AbstractAdapter) ? AbstractAdapter : Object)
      # The type of all these jobs. Their classes are in the header `class`.
      TYPE = 'active_job'

      # @param producer a Producer or an Http; by default, Streamfleet.producer
      def initialize(producer: nil)
        super()
        @producer = producer
      end

      def enqueue(job)
        submit(job)
      end

      def enqueue_at(job, timestamp)
        submit(job, run_at: timestamp)
      end

      # Submits many jobs in few round trips, and returns how many were accepted.
      def enqueue_all(jobs)
        submissions = jobs.map { |job| submission(job, job.scheduled_at ? { run_at: job.scheduled_at } : {}) }
        noted(jobs, producer.enqueue_many(submissions))
      rescue Streamfleet::BulkError => e
        noted(jobs, e.ids)
      end

      # Whether the program that runs the job takes no more jobs, and the job should go on later.
      def stopping?
        Streamfleet.stopping?
      end

      # A job belongs to a database's transaction only if it is submitted after the commit: Redis takes no part in it.
      def enqueue_after_transaction_commit?
        true
      end

      private

      def producer
        @producer || Streamfleet.producer
      end

      def submit(job, terms = {})
        options = submission(job, terms)
        accepted = producer.enqueue(options.delete(:type), options.delete(:payload), **options)
        job.provider_job_id = accepted.respond_to?(:id) ? accepted.id : accepted
      end

      def submission(job, terms)
        { type: TYPE, payload: job.serialize, queue: queue_of(job.queue_name), lane: lane_of(job.priority), headers: { class: job.class.name }, **terms }
      end

      # A queue of the fleet has lower case letters, digits, '-' and '_' only.
      def queue_of(name)
        name.to_s.downcase.gsub(/[^a-z0-9_-]/, '-').sub(/\A[^a-z0-9]+/, '')[0, 64]
      end

      # Smaller numbers go first, and a job without a number has 0.
      def lane_of(priority)
        return 'normal' if priority.nil? || priority.zero?

        priority.negative? ? 'high' : 'low'
      end

      def noted(jobs, ids)
        jobs.zip(ids) do |job, id|
          job.provider_job_id = id
          job.successfully_enqueued = !id.nil? if job.respond_to?(:successfully_enqueued=)
        end
        ids.compact.size
      end
    end
  end
end

module Streamfleet
  # The handler for jobs of ActiveJob: `retry_on`, `discard_on` and callbacks work as before. What they let pass is a failure, about which the type's
  # policy decides.
  module ActiveJobs
    module_function

    def handle(worker, **options)
      worker.on(::ActiveJob::QueueAdapters::StreamfleetAdapter::TYPE, **options) do |job|
        ::ActiveJob::Base.execute(job.payload)
        nil
      end
    end
  end
end
