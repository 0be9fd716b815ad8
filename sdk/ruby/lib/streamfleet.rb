# frozen_string_literal: true

# Submits jobs to a streamfleet fleet, and handles them, in Ruby.
#
# The producer sends what docs/wire.md lets every language send: one XADD per job, with a client of yours. Http asks the HTTP API for what needs a
# script. The worker takes jobs over standard input and answers them over standard output, one JSON object per line.
require_relative 'streamfleet/version'
require_relative 'streamfleet/errors'
require_relative 'streamfleet/outcomes'
require_relative 'streamfleet/trace'
require_relative 'streamfleet/submission'
require_relative 'streamfleet/status'
require_relative 'streamfleet/producer'
require_relative 'streamfleet/http'
require_relative 'streamfleet/job'
require_relative 'streamfleet/pipes'
require_relative 'streamfleet/worker'
require_relative 'streamfleet/fakes'

module Streamfleet
  autoload :Codecs, "#{__dir__}/streamfleet/codecs.rb"
  autoload :CodecError, "#{__dir__}/streamfleet/codecs.rb"

  class << self
    # What ActiveJob submits its jobs with: a Producer or an Http. By default, a Producer over the gem `redis` and REDIS_URL.
    attr_writer :producer

    def producer
      @producer ||= begin
        require 'redis'
        Producer.new(Redis.new)
      end
    end

    # Whether this program of a pool takes no more jobs: a job that takes long may stop at the next place where it can go on later.
    def stopping?
      worker = Worker.current
      !worker.nil? && (worker.stopping? || Job.current&.cancelled == 'shutdown')
    end
  end
end

if defined?(ActiveSupport) && ActiveSupport.respond_to?(:on_load)
  ActiveSupport.on_load(:active_job) { require_relative 'streamfleet/active_job' }
end
