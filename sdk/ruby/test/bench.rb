# frozen_string_literal: true

# ruby -Ilib test/bench.rb [JOBS] [PROCESSES]: jobs per second of ActiveJob on Sidekiq and on streamfleet, on the same Redis, one after the other, with
# as many processes of the application, of 10 threads each. All jobs wait before the first one runs. STREAMFLEET_BIN should be a release build.

require_relative 'helper'
Minitest.singleton_class.define_method(:run) { |*| true }

COUNT = Integer(ARGV[0] || 10_000)
PROCESSES = Integer(ARGV[1] || 1)
APP = File.expand_path('app/shop.rb', __dir__)

def submitted(stage, adapter)
  env = { 'ADAPTER' => adapter, 'JOURNAL' => File::NULL, 'REDIS_URL' => stage.url }
  code = "begun = Process.clock_gettime(1); #{COUNT}.times { |n| NoopJob.perform_later(n) }; puts \"rate \#{(#{COUNT} / (Process.clock_gettime(1) - begun)).round}\""
  pid = stage.start("#{adapter}.produce", [*Helper::RUBY, '-W0', '-r', APP, '-e', code], env)
  Process.wait(pid)
  stage.programs.delete(pid)
  [env, File.read(stage.path("#{adapter}.produce.log"))[/^rate (\d+)/, 1].to_i]
end

# Processor time of programs and of what they have started, in seconds: it hardly depends on what else the machine does.
def cpu(pids)
  stats = Dir['/proc/[0-9]*/stat'].filter_map { |file| File.read(file).sub(/\(.*\)/, 'x').split rescue nil }
  family = pids.map(&:to_s)
  2.times { family |= stats.select { |stat| family.include?(stat[3]) }.map(&:first) }
  stats.select { |stat| family.include?(stat[0]) }.sum { |stat| stat[13].to_i + stat[14].to_i } / 100.0
end

# Jobs per second, and the processor time of a thousand of them in milliseconds.
def drained(pids)
  Helper.eventually('the first job') { yield < COUNT }
  begun = Helper.now
  spent = cpu(pids)
  left = yield
  Helper.eventually('the last job', 300) { yield.zero? }
  [(left / (Helper.now - begun)).round, ((cpu(pids) - spent) / left * 1_000_000).round]
end

Helper.staged do |stage|
  env, sidekiq_in = submitted(stage, 'sidekiq')
  programs = Array.new(PROCESSES) { stage.start('sidekiq', ['sidekiq', '-q', 'default', '-c', '10', '-r', APP], env) }
  # What its threads hold when the queue is empty does not count: that favors it a little.
  sidekiq_out, sidekiq_cpu = drained(programs) { stage.redis.llen('queue:default') }
  programs.each { |pid| stage.kill(pid) }
  stage.redis.flushall

  env, own_in = submitted(stage, 'streamfleet')
  command = JSON.generate([*Helper::RUBY, "#{Helper::SDK}/exe/streamfleet-pool", APP])
  worker = stage.worker(<<~TOML, env: env)
    [worker]
    prefetch = 64
    [queues.default]
    concurrency = #{PROCESSES * 10}
    [pools.rails]
    command = #{command}
    processes = #{PROCESSES}
    inflight = 10
    start = "eager"
    start_timeout = "60s"
    pass_env = ["ADAPTER", "JOURNAL", "REDIS_URL"]
    env = { STREAMFLEET_THREADS = "10" }
    [types.active_job]
    handler.pool = "rails"
  TOML
  own_out, own_cpu = drained([worker]) { stage.redis.xlen('sf:{default}:jobs') }
  [['submitted', sidekiq_in, own_in], ['run', sidekiq_out, own_out]].each do |what, before, after|
    puts format('%-10s Sidekiq %d/s, streamfleet %d/s: ratio %.1f', what, before, after, after.to_f / before)
  end
  puts format('CPU        Sidekiq %d ms of 1000 jobs, streamfleet %d ms, with its worker, without Redis: ratio %.1f', sidekiq_cpu, own_cpu, sidekiq_cpu.to_f / own_cpu)
end
