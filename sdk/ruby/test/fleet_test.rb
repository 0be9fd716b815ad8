# frozen_string_literal: true

require_relative 'helper'

# The gem with the real program: a worker and a console.
class FleetTest < Minitest::Test
  include Streamfleet

  WORKER = <<~RUBY
    require 'streamfleet'
    include Streamfleet
    worker = Worker.new
    worker.on('sum') { |job| job.payload.sum }
    worker.on('fail') { raise KeyError, 'no such key' }
    worker.on('flaky') { |job| job.attempt == 1 ? Retry.new('not yet', delay: 0.05) : job.attempt }
    worker.on('gift') { |job| job.step == 'charge' ? { receipt: 7 } : job.results['charge']['receipt'] }
    met = { 'left' => Queue.new, 'right' => Queue.new }
    worker.on('pair') do |job|
      next job.results.values_at('left', 'right') if job.step == 'both'

      met[job.step].push(job.step)
      met[job.step == 'left' ? 'right' : 'left'].pop
    end
    worker.on('hang') { |job| sleep 0.01 until job.cancelled; raise 'cut' }
    worker.run
  RUBY

  def test_jobs_run_and_are_looked_up_by_both_ways
    skip('STREAMFLEET_BIN is not set') unless Helper::BIN
    Helper.staged do |stage|
      stage.write('worker.rb', WORKER)
      console = start(stage)
      producer = Producer.new(stage.redis)
      result = ->(type, payload = nil, **options) { producer.wait(producer.enqueue(type, payload, tracking: 'all', **options)) }
      assert_equal 3, result.call('sum', [1, 2]).value
      assert_equal 2, result.call('flaky').value
      assert_match(/KeyError: no such key/, assert_raises(JobFailed) { result.call('fail').value }.message)
      assert_equal 7, result.call('gift').value['mail']
      # Each of two steps returns what the other one is called, once both run.
      assert_equal({ 'both' => %w[right left], 'left' => 'right', 'right' => 'left' }, result.call('pair', timeout: 20).value)
      assert_equal 'dead', result.call('hang', timeout: 0.5, max_attempts: 1).state
      check_console(console)
    end
  end

  def start(stage)
    port = Helper.free_port
    token, sha256 = `#{Helper::BIN} console token`.scan(/: +(\S+)/).flatten
    stage.write('accounts.toml', "[tokens.shop]\nsha256 = \"#{sha256}\"\nrole = \"submitter\"\npayloads = true\n")
    types = %w[sum fail flaky hang].map { |type| "[types.#{type}]\nhandler.pool = \"ruby\"\nbackoff = { fixed = \"10ms\" }\n" }.join
    command = JSON.generate([*Helper::RUBY, 'worker.rb'])
    stage.worker(<<~TOML)
      [pools.ruby]
      command = #{command}
      processes = 1
      inflight = 5
      [types.fail.errors]
      IndexError = "fatal"
      #{types}
      [types.pair]
      concurrent_steps = 2
      [types.pair.steps]
      left = { kind = "auto", handler.pool = "ruby" }
      right = { kind = "auto", handler.pool = "ruby" }
      both = { kind = "auto", handler.pool = "ruby", after = ["left", "right"] }
      [types.gift.steps.charge]
      kind = "once"
      handler.pool = "ruby"
      [types.gift.steps.mail]
      kind = "auto"
      after = ["charge"]
      handler.pool = "ruby"
    TOML
    stage.worker("[console]\nlisten = \"127.0.0.1:#{port}\"\naccounts_file = \"accounts.toml\"\n", name: 'console', command: 'console')
    Helper.eventually('the console') do
      Net::HTTP.get_response(URI("http://127.0.0.1:#{port}/healthz")).is_a?(Net::HTTPSuccess)
    rescue SystemCallError
      false
    end
    Http.new(url: "http://127.0.0.1:#{port}", token: token, timeout: 60)
  end

  def check_console(http)
    assert_equal [true, false], Array.new(2) { http.enqueue('sum', [1, 2], id: 'sum-7').new? }
    assert_equal 3, http.wait('sum-7').value
    holder = http.enqueue('sum', [1], unique: 'k', delay: 3600)
    assert_equal [holder.id, false], http.enqueue('sum', [2], unique: 'k').then { |other| [other.id, other.new?] }
    ids = http.enqueue_many(Array.new(600) { |n| { type: 'sum', payload: [n, 1], id: n.odd? ? "many-#{n}" : nil } })
    assert_equal [600, 'many-599', 599], [ids.uniq.size, ids.last, http.wait(ids[598]).value]
    error = assert_raises(BulkError) { http.enqueue_many([{ type: 'sum' }, { type: 'sum', durability: 'nowhere' }]) }
    assert_equal [nil, InvalidSubmission], [error.errors[0], error.errors[1].class]
    2.times { assert_equal %w[sums.0 own], http.batch('sums', [{ type: 'sum', payload: [1] }, { type: 'sum', payload: [2], id: 'own' }], { type: 'sum', payload: [3], id: 'all' }) }
    assert_equal 3, http.wait('all').value
  end
end
