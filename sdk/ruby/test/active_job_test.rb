# frozen_string_literal: true

require_relative 'helper'
require 'active_job'
require 'streamfleet/active_job'

ActiveJob::Base.logger = nil

# What the adapter submits; an application on Sidekiq and on streamfleet, with the same results; killed workers lose nothing.
class ActiveJobTest < Minitest::Test
  APP = File.expand_path('app/shop.rb', __dir__)
  POOL = [*Helper::RUBY, "#{Helper::SDK}/exe/streamfleet-pool", APP].freeze

  class PlainJob < ActiveJob::Base
    def perform(*) end
  end

  def adapted(producer)
    PlainJob.queue_adapter = ActiveJob::QueueAdapters::StreamfleetAdapter.new(producer: producer)
  end

  def test_a_job_is_submitted_with_its_class_queue_and_priority
    fake = Streamfleet::FakeProducer.new
    adapter = adapted(fake)
    job = PlainJob.set(queue: 'Low_Mails', priority: 7).perform_later(1, symbol: :x)
    noted = fake.jobs.last
    assert_equal [noted.id, 'active_job', 'low_mails', 'low', { 'class' => 'ActiveJobTest::PlainJob' }], [job.provider_job_id, noted.type, noted.queue, noted.lane, noted.headers]
    assert_equal job.serialize.except('provider_job_id'), noted.payload.except('provider_job_id')
    at = Time.at(1_900_000_000)
    PlainJob.set(wait_until: at, priority: -1).perform_later
    assert_equal [at.to_f, 'high', 'scheduled'], [fake.jobs.last.options[:run_at].to_f, fake.jobs.last.lane, fake.jobs.last.state]
    jobs = [PlainJob.new(1), PlainJob.new(2).tap { |each| each.scheduled_at = at.to_f }]
    assert_equal 2, adapter.enqueue_all(jobs)
    assert_equal fake.jobs.last(2).map(&:id), jobs.map(&:provider_job_id)
    assert_equal [nil, at.to_f], fake.jobs.last(2).map { |each| each.options[:run_at] }
    refute adapter.stopping?
    http = Streamfleet::FakeHttp.new
    adapted(http)
    assert_equal http.jobs.last&.id || 'fake-1', PlainJob.perform_later.provider_job_id
  end

  # A job as ActiveJob 7.1 has it for perform_all_later, which Debian does not have: written from its documentation.
  Later = Struct.new(:number, :scheduled_at, :provider_job_id, :successfully_enqueued) do
    def serialize
      { 'job_class' => 'Later', 'arguments' => [number] }
    end

    def queue_name
      'default'
    end

    def priority
      nil
    end
  end

  # Redis breaks after the first round.
  class Breaking < Streamfleet::FakeProducer
    def enqueue_many(jobs)
      raise Streamfleet::BulkError.new(['1-0', nil], [nil, StandardError.new('it broke')]) if jobs.size == 2

      super
    end
  end

  def test_many_jobs_say_which_were_accepted
    adapter = ActiveJob::QueueAdapters::StreamfleetAdapter.new(producer: Breaking.new)
    jobs = [Later.new(1), Later.new(2, Time.at(1_900_000_000))]
    assert_equal 1, adapter.enqueue_all(jobs)
    assert_equal [['1-0', true], [nil, false]], jobs.map { |job| [job.provider_job_id, job.successfully_enqueued] }
    assert_equal 3, adapter.enqueue_all(Array.new(3) { |n| Later.new(n) })
    assert adapter.enqueue_after_transaction_commit?
  end

  def test_a_job_may_ask_whether_to_stop
    adapter = ActiveJob::QueueAdapters::StreamfleetAdapter.new(producer: Streamfleet::FakeProducer.new)
    refute adapter.stopping?
    Streamfleet::Worker.current = Streamfleet::Worker.new
    job = Streamfleet::Job.new('a')
    Streamfleet::Job.with(job) do
      refute adapter.stopping?
      job.cancel('shutdown')
      assert adapter.stopping?
    end
  ensure
    Streamfleet::Worker.current = nil
  end

  def test_the_handler_executes_jobs
    worker = Streamfleet::Worker.new
    Streamfleet::ActiveJobs.handle(worker, max_attempts: 2)
    fake = Streamfleet::FakeProducer.new(worker: worker)
    adapted(fake)
    performed = []
    PlainJob.define_method(:perform) { |*words| words == ['bad'] ? raise(KeyError, 'bad') : performed << words }
    PlainJob.perform_later(1, at: Time.at(0))
    PlainJob.perform_later('bad')
    assert_equal [[1, { at: Time.at(0) }]], performed
    assert_equal %w[done dead], fake.jobs.map(&:state)
    assert_match(/\AKeyError: bad/, fake.jobs.last.error)
  ensure
    PlainJob.remove_method(:perform)
    PlainJob.define_method(:perform) { |*| nil }
  end

  def toml(processes: 1, threads: 5, lease: '15s')
    <<~TOML
      [worker]
      lease = "#{lease}"
      prefetch = 64
      [queues.default]
      [queues.mailers]
      [pools.rails]
      command = #{JSON.generate(POOL)}
      processes = #{processes}
      inflight = #{threads}
      start = "eager"
      start_timeout = "60s"
      pass_env = ["ADAPTER", "JOURNAL", "REDIS_URL", "GEM_PATH"]
      env = { STREAMFLEET_THREADS = "#{threads}" }
      [types.active_job]
      handler.pool = "rails"
      max_attempts = 1
    TOML
  end

  def env(stage, adapter)
    { 'ADAPTER' => adapter, 'JOURNAL' => stage.path("#{adapter}.journal"), 'REDIS_URL' => stage.url }
  end

  def produce(stage, adapter, call)
    pid = stage.start("#{adapter}.produce", [*Helper::RUBY, '-r', APP, '-e', call], env(stage, adapter))
    assert_predicate Process.wait2(pid)[1], :success?
    stage.programs.delete(pid)
  end

  # 4 mails and what is before each, 3 + 3 attempts and an end of flaky jobs, a discarded and a broken one, 2 packed and 2 shipped orders.
  LINES = 21

  def test_an_application_does_on_streamfleet_what_it_does_on_sidekiq
    skip('STREAMFLEET_BIN is not set') unless Helper::BIN
    Helper.staged do |stage|
      sidekiq = stage.start('sidekiq', ['sidekiq', '-r', APP, '-c', '5', '-q', 'default', '-q', 'mailers'], env(stage, 'sidekiq'))
      produce(stage, 'sidekiq', 'Shop.open')
      Helper.eventually('the jobs on Sidekiq') { stage.journal('sidekiq.journal').size >= LINES }
      stage.kill(sidekiq)
      stage.redis.flushall
      worker = stage.worker(toml, env: env(stage, 'streamfleet'))
      produce(stage, 'streamfleet', 'Shop.open')
      Helper.eventually('the jobs on streamfleet') { stage.journal('streamfleet.journal').size >= LINES }
      assert_predicate stage.kill(worker, 'TERM'), :success?
      sorted = ->(name) { stage.journal(name).map { |line| JSON.generate(line) }.sort }
      assert_equal sorted.call('sidekiq.journal'), sorted.call('streamfleet.journal')
      assert_equal LINES, stage.journal('streamfleet.journal').size
    end
  end

  def test_killed_workers_lose_no_order
    skip('STREAMFLEET_BIN is not set') unless Helper::BIN
    orders = 300
    Helper.staged do |stage|
      produce(stage, 'streamfleet', "Shop.pack(#{orders})")
      workers = [stage.worker(toml(lease: '1s'), env: env(stage, 'streamfleet'))]
      mailed = -> { stage.journal('streamfleet.journal').select { |line| line['what'] == 'mail' }.map { |line| line['to'] }.uniq.size }
      [0.1, 0.4, 0.7].each do |share|
        Helper.eventually("#{share} of the orders") { stage.journal('streamfleet.journal').size >= share * orders * 4 }
        # The next one is there already, and takes over what the killed one has.
        workers << stage.worker(toml(lease: '1s'), name: "worker#{share}", env: env(stage, 'streamfleet'))
        assert_equal 9, stage.kill(workers.shift).termsig
      end
      Helper.eventually('all orders') { mailed.call == orders }
    end
  end
end
