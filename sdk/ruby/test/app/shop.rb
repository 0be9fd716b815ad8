# frozen_string_literal: true

# An application as the guide of ActiveJob writes it: mail, delay, retry, failure and a chain. The adapter is its configuration, and nothing else is
# different on Sidekiq and on streamfleet.

require 'active_job'
require 'json'
require ENV.fetch('ADAPTER')

ActiveJob::Base.queue_adapter = ENV.fetch('ADAPTER').to_sym
ActiveJob::Base.logger = Logger.new($stderr, level: Logger::WARN)
if defined?(Sidekiq)
  Sidekiq.configure_server { |config| config.options[:average_scheduled_poll_interval] = 0.2 }
  Sidekiq.strict_args!(false) if Sidekiq.respond_to?(:strict_args!)
end

class ApplicationJob < ActiveJob::Base
  queue_as :default

  def self.note(what, **facts)
    File.open(ENV.fetch('JOURNAL'), 'a') { |file| file.write("#{JSON.generate(what: what, **facts)}\n") }
  end

  def note(what, **facts)
    self.class.note(what, **facts)
  end
end

class MailJob < ApplicationJob
  queue_as :mailers
  before_perform { |job| job.note('before', to: job.arguments.first[:to]) }

  def perform(to:, at: nil)
    note('mail', to: to, at: at&.iso8601, queue: queue_name, executions: executions)
  end
end

class FlakyJob < ApplicationJob
  BankBusy = Class.new(StandardError)
  retry_on BankBusy, wait: 0, attempts: 3 do |job, error|
    job.note('given up', error: error.message)
  end

  def perform(succeeds)
    note('flaky', succeeds: succeeds, executions: executions)
    raise BankBusy, 'the bank is busy' unless succeeds && executions == 3
  end
end

class HopelessJob < ApplicationJob
  NoAccount = Class.new(StandardError)
  discard_on(NoAccount) { |job, error| job.note('discarded', error: error.message) }

  def perform
    raise NoAccount, 'no such account'
  end
end

class BrokenJob < ApplicationJob
  def perform
    note('broken', executions: executions)
    raise TypeError, 'nobody handles this'
  end
end

# Each step adds the next one.
class ShipJob < ApplicationJob
  def perform(order)
    note('ship', order: order)
    MailJob.perform_later(to: "order-#{order[:number]}")
  end
end

class PackJob < ApplicationJob
  def perform(order)
    note('pack', order: order)
    ShipJob.perform_later(order)
  end
end

class NoopJob < ApplicationJob
  def perform(number); end
end

# What controllers would do.
module Shop
  module_function

  def open
    MailJob.perform_later(to: 'ann')
    MailJob.set(wait: 0.5).perform_later(to: 'bob', at: Time.utc(2026, 11, 1))
    [true, false].each { |succeeds| FlakyJob.perform_later(succeeds) }
    HopelessJob.perform_later
    BrokenJob.set(priority: 5).perform_later
    pack(2)
  end

  def pack(count)
    count.times { |number| PackJob.perform_later({ number: number, tags: [:new, 1.5, nil] }) }
  end
end
