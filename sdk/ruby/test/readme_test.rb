# frozen_string_literal: true

require_relative 'helper'

# Every code block of the README that a reader would run.
class ReadmeTest < Minitest::Test
  README = File.read(File.join(Helper::SDK, 'README.md'))
  BLOCKS = README.scan(/(?:^<!-- run: ([^\n]*) -->\n)?^```(\w+)\n(.*?)^```$/m)

  def code(how)
    BLOCKS.find { |run, _, _| run == how }.last
  end

  def test_every_block_of_ruby_is_run_or_is_configuration
    left = BLOCKS.select { |how, _, _| how.nil? }.map { |_, _, text| text.lines.first.strip }
    assert_equal ["gem 'redis'", 'config.active_job.queue_adapter = :streamfleet', '[queues.default]'], left
  end

  ASKED = { 'done' => { lines: [1, 2] }, 'fatal' => { lines: [] }, 'drop' => { lines: [1], cancelled: true }, 'snooze' => { lines: [1], shop: 'closed' },
            'retry' => { lines: [1], busy: true } }.freeze

  def test_the_handler_has_each_outcome
    Helper::Program.with(code('program')) do |program|
      assert_equal ['order.import'], program.hello['types']
      ASKED.each { |want, payload| assert_equal want, program.ask('order.import', payload)['outcome'] }
    end
  end

  def test_the_example_of_tests_passes
    assert system(*Helper::RUBY, '-e', code('unit'))
  end

  def test_the_producer_submits
    Helper.staged do |stage|
      redis = stage.redis
      binding.tap { |scope| scope.local_variable_set(:redis, redis) }.eval(code('producer'))
      assert_equal [3, 1000, 1], %w[jobs jobs:low jobs:high].map { |lane| redis.xlen("sf:{mail}:#{lane}") }
    end
  end

  def test_the_example_of_codecs_encrypts
    Helper.staged do |stage|
      ENV['APP_KEYS'] = "2026-11:#{['k' * 32].pack('m0')}"
      scope = binding.tap { |each| each.local_variable_set(:redis, stage.redis) }
      scope.eval(code('codecs'))
      fields = stage.redis.xrange('sf:{default}:jobs').last.last
      assert_equal ['raw', 'json aes-256-gcm;key=2026-11'], fields.values_at('encoding', 'h.codec')
      opened = scope.local_variable_get(:codecs).decode_payload('mail.send', fields['h.codec'], fields['payload'].b)
      assert_equal ['json', '{"to":"ann@example.com"}'], opened
    ensure
      ENV.delete('APP_KEYS')
    end
  end

  def test_the_quick_start_works
    skip('STREAMFLEET_BIN is not set') unless Helper::BIN
    Helper.staged do |stage|
      cwd = stage.path('shop')
      FileUtils.mkdir_p([cwd, stage.path('streamfleet')])
      FileUtils.ln_s(File.dirname(Helper::SDK), stage.path('streamfleet/sdk'))
      FileUtils.mkdir_p(stage.path('bin'))
      FileUtils.ln_s(File.realpath(Helper::BIN), stage.path('bin/streamfleet'))
      port = Helper.free_port
      script = ->(how) { ['sh', '-euc', "cd shop\n#{code("shell #{how}").gsub('6390', port.to_s)}"] }
      BLOCKS.each { |how, _, text| File.write(File.join(cwd, how.split.last), text.gsub('6390', port.to_s)) if how&.start_with?('file ') }
      env = { 'PATH' => "#{stage.path('bin')}:#{ENV['PATH']}", 'STREAMFLEET__TELEMETRY__LISTEN' => "127.0.0.1:#{Helper.free_port}" }
      assert_equal 0, Process.wait2(stage.start('install', script.call('install'), env))[1].exitstatus
      dev = stage.start('dev', script.call('dev'), env)
      Helper.eventually('its Redis') { File.exist?(File.join(cwd, '.streamfleet/password')) }
      printed = Helper.eventually('the result') do
        output, status = Open3.capture2e(env, *script.call('submit'), chdir: stage.folder)
        output if status.success?
      end
      assert_equal "Hello Ann\n", printed
      Process.kill('INT', -dev)
      Process.wait(dev)
      stage.programs.delete(dev)
    end
  end

  def test_the_console_of_the_readme
    skip('STREAMFLEET_BIN is not set') unless Helper::BIN
    Helper.staged do |stage|
      port = Helper.free_port
      token, sha256 = `#{Helper::BIN} console token`.scan(/: +(\S+)/).flatten
      stage.write('accounts.toml', "[tokens.shop]\nsha256 = \"#{sha256}\"\nrole = \"submitter\"\n")
      stage.write('worker.rb', "require 'streamfleet'\nStreamfleet::Worker.new.on('invoice.send') { 1 }.run\n")
      command = JSON.generate([*Helper::RUBY, 'worker.rb'])
      stage.worker("[types.\"invoice.send\"]\nhandler = { pool = { command = #{command} } }\n")
      stage.worker("[console]\nlisten = \"127.0.0.1:#{port}\"\naccounts_file = \"accounts.toml\"\n", name: 'console', command: 'console')
      Helper.eventually('the console') do
        Net::HTTP.get_response(URI("http://127.0.0.1:#{port}/healthz")).is_a?(Net::HTTPSuccess)
      rescue SystemCallError
        false
      end
      output, status = Open3.capture2e({ 'CONSOLE' => "http://127.0.0.1:#{port}", 'TOKEN' => token }, *Helper::RUBY, '-rstreamfleet', '-e', code('http'))
      assert_equal ["true\nfalse\ndone\n", true], [output, status.success?]
    end
  end
end
