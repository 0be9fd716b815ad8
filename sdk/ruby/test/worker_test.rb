# frozen_string_literal: true

require_relative 'helper'

# The program of a pool, with a worker that is played.
class WorkerTest < Minitest::Test
  include Streamfleet

  HANDLERS = <<~'RUBY'
    include Streamfleet
    puts 'noise while loading'
    worker = Worker.new
    worker.use { |job, inner| job.headers['middle'] ? Drop.new('in the middle') : inner.call }
    ANSWERS = {
      'value' => -> { { a: [1, nil, 'ü'] } }, 'bytes' => -> { "\xFF\x00".b }, 'nothing' => -> {}, 'done' => -> { Done.new(1) },
      'retry' => -> { Retry.new('busy', delay: 5) }, 'unknown' => -> { raise Unknown.new('no answer') }, 'fatal' => -> { raise Fatal.new('never') },
      'snooze' => -> { Snooze.new(60, 'quota') }, 'drop' => -> { Drop.new('not wanted') }, 'key' => -> { {}.fetch(:to) }, 'nan' => -> { Float::NAN },
      'object' => -> { Object.new }, 'binary' => -> { raise KeyError, "\xFFü".b }, 'odd' => -> { raise Class.new(StandardError) { def message = raise('no') } }, 'script' => -> { raise NotImplementedError, 'not yet' }, 'deep' => -> { f = ->(n) { f.call(n + 1) + 1 }; f.call(0) },
      'long' => -> { 'x' * 5000 }, 'print' => -> { puts 'noise'; system('echo more noise'); $stdin.read.size }, 'exit' => -> { exit(3) }
    }
    worker.on('ask') { |job| ANSWERS.fetch(job.payload).call }
    worker.on('echo') { |job| job.payload.is_a?(String) && job.encoding == 'raw' ? job.payload : { payload: job.payload, attempt: job.attempt, results: job.results, step: job.step } }
    worker.on('report') { |job| job.progress(40, 'half'); job.log('logged', 'warn', rows: 3, odd: Object); job.remaining }
    worker.on('hang') { |job| job.progress(1); sleep 0.01 until job.cancelled || Streamfleet.stopping?; job.cancelled ? raise('cut') : 'stopped' }
    worker.on('together') { |job| ($together ||= Thread::Queue.new) << 1; sleep 0.01 until $together.size >= 3; 1 }
    worker.on('trace') { |_| FakeProducer.new.tap { |fake| fake.enqueue('b') }.jobs[0].options }
  RUBY

  def with_program(run = 'worker.run(threads: 3)', **options, &block)
    Helper::Program.with("#{HANDLERS}\n#{run}", **options, &block)
  end

  def test_the_greeting_names_types_and_the_lower_number
    with_program do |program|
      assert_equal({ 'type' => 'ready', 'protocol' => 1, 'types' => %w[ask echo hang report together trace], 'inflight' => 3, 'sdk' => "streamfleet-ruby #{VERSION}" }, program.hello(inflight: 50))
    end
    with_program do |program|
      program.send({ type: 'hello', protocol: 2, inflight: 1 })
      assert_equal [1, 1], program.end.then { |lines, code| [lines.size, code] }
      assert_match(/version 2 .* version 1/, program.errors)
    end
  end

  OUTCOMES = {
    'value' => { 'outcome' => 'done', 'result' => { 'a' => [1, nil, 'ü'] } }, 'bytes' => { 'outcome' => 'done', 'result_base64' => '/wA=' },
    'nothing' => { 'outcome' => 'done' }, 'done' => { 'outcome' => 'done', 'result' => 1 }, 'retry' => { 'outcome' => 'retry', 'error' => 'busy', 'delay_ms' => 5000 },
    'unknown' => { 'outcome' => 'retry', 'unknown' => true, 'error' => 'no answer' }, 'fatal' => { 'outcome' => 'fatal', 'error' => 'never' },
    'snooze' => { 'outcome' => 'snooze', 'delay_ms' => 60_000, 'reason' => 'quota' }, 'drop' => { 'outcome' => 'drop', 'reason' => 'not wanted' }
  }.freeze

  def test_each_outcome_is_answered
    with_program do |program|
      program.hello
      OUTCOMES.each { |payload, want| assert_equal want, program.ask('ask', payload) }
      failed = program.ask('ask', 'key')
      assert_match(/\AKeyError: key not found: :to\n  at /, failed['error'])
      assert_equal %w[KeyError IndexError StandardError Exception], failed['classes']
      assert_match(/\AKeyError: .ü\n/, program.ask('ask', 'binary')['error'])
      assert_equal 'an error that cannot be shown', program.ask('ask', 'odd')['error']
      assert_equal 'NotImplementedError', program.ask('ask', 'script')['classes'].first
      assert_match(/\ASystemStackError/, program.ask('ask', 'deep')['error'])
      %w[nan object].each { |payload| assert_match(/\Athe handler's result cannot be sent: JSON has no/, program.ask('ask', payload)['error']) }
      assert_equal({ 'outcome' => 'drop', 'reason' => 'in the middle' }, program.ask('ask', 'value', headers: { middle: '1' }))
      assert_equal 0, program.ask('ask', 'print')['result']
      assert_match(/no handler for other; it serves ask/, program.ask('other')['error'])
      program.close
      assert_equal [[{ 'type' => 'bye' }], 0], program.end
      assert_match(/noise while loading.*noise.*more noise/m, program.errors)
    end
  end

  def test_payloads_steps_and_traces_arrive
    with_program do |program|
      program.hello
      result = program.ask('echo', { n: 2**64 - 1 }, attempt: 2, step: 'mail', results: { charge: { encoding: 'base64', data: '/w==' }, pack: 7 }.except(:charge))['result']
      assert_equal({ 'payload' => { 'n' => 2**64 - 1 }, 'attempt' => 2, 'results' => { 'pack' => 7 }, 'step' => 'mail' }, result)
      assert_equal '/w==', program.ask('echo', payload_base64: '/w==', encoding: 'raw')['result_base64']
      trace = { 'traceparent' => "00-#{'a' * 32}-#{'b' * 16}-01", 'tracestate' => 's=1' }
      assert_equal trace, program.ask('trace', traceparent: trace['traceparent'], headers: { tracestate: 's=1' })['result']
    end
  end

  def test_progress_and_logs_belong_to_the_job
    with_program do |program|
      program.hello
      ref = program.job('report')
      assert_equal({ 'type' => 'progress', 'ref' => ref, 'percent' => 40.0, 'message' => 'half' }, program.read)
      assert_equal({ 'type' => 'log', 'ref' => ref, 'level' => 'warn', 'message' => 'logged', 'fields' => { 'rows' => 3, 'odd' => 'Object' } }, program.read)
      assert_operator program.result['result'], :>, 25
    end
  end

  def test_jobs_run_at_once_and_are_cancelled
    with_program do |program|
      program.hello(inflight: 3)
      refs = Array.new(3) { program.job('together') }
      assert_equal refs, Array.new(3) { program.result['ref'] }.sort
      ref = program.job('hang')
      assert_equal 'progress', program.read['type']
      program.send({ type: 'cancel', ref: ref, reason: 'timeout' })
      assert_match(/\Athe attempt was interrupted: timeout\nRuntimeError: cut/, program.result['error'])
    end
  end

  def test_a_signal_lets_jobs_finish
    with_program do |program|
      program.hello(inflight: 2)
      ref = program.job('hang')
      program.ask('ask', 'done')
      program.signal('TERM')
      assert_equal [ref, 'stopped'], program.result.values_at('ref', 'result')
      assert_equal [[{ 'type' => 'bye' }], 0], program.end
    end
  end

  def test_a_program_ends_after_enough_jobs
    with_program('worker.run(max_jobs: 2)') do |program|
      program.hello
      2.times { program.ask('ask', 'done') }
      assert_equal [[{ 'type' => 'bye' }], 0], program.end
    end
  end

  def test_a_handler_that_ends_the_program_is_named
    with_program do |program|
      program.hello
      assert_equal({ 'outcome' => 'retry', 'unknown' => true, 'error' => 'SystemExit ended the program: exit', 'crash' => true }, program.ask('ask', 'exit'))
      assert_equal [[], 1], program.end
    end
  end

  def test_lines_are_bounded
    with_program do |program|
      program.hello(max_line: 2000)
      assert_match(/longer than the pool's max_line/, program.ask('ask', 'long')['error'])
    end
  end

  def test_a_program_says_its_types
    code = "#{HANDLERS}\nWorker.new.on('mail', max_attempts: 4, timeout: 30, concurrency: 2, tracking: :all) { }.on('b') { }.run"
    Helper::Program.with(code, env: { 'STREAMFLEET_DESCRIBE' => '1' }) do |program|
      types = { 'mail' => { 'max_attempts' => 4, 'timeout' => '30000ms', 'concurrency' => 2, 'tracking' => 'all' }, 'b' => {} }
      assert_equal [[{ 'type' => 'handlers', 'protocol' => 1, 'types' => types }], 0], program.end
    end
    worker = Worker.new
    assert_raises(ArgumentError) { worker.on('A') { 1 } }
    assert_raises(ArgumentError) { worker.on('a') }
    assert_match(/no option 'attempts'/, assert_raises(ArgumentError) { worker.on('a', attempts: 3) { 1 } }.message)
    assert_raises(ArgumentError) { worker.run }
  end

  def test_fakes_run_handlers
    worker = Worker.new.on('flaky') { |job| job.attempt < 3 ? raise("attempt #{job.attempt}") : job.attempt }
    seen = []
    worker.on('next') { |job| seen << job.payload }
    fake = FakeProducer.new(worker: worker)
    id = fake.enqueue('flaky', max_attempts: 3, then: [{ type: 'next', payload: { n: 1 } }], on_success: 'next')
    assert_equal [3, 3], [fake.result(id), fake.jobs[0].attempts]
    assert_equal [{ 'id' => id, 'type' => 'flaky', 'state' => 'done', 'result' => 3 }, { 'n' => 1 }], seen
    fake.enqueue('flaky', on_failure: 'next')
    assert_equal ['dead', 'exhausted'], seen.last.values_at('state', 'reason')
    assert_equal %w[b.0 b.1], fake.batch('b', [{ type: 'next', payload: 1 }, { type: 'next', payload: 2 }], { type: 'next', payload: 'all' })
    fake.assert_enqueued('next', 'all')
  end

  def test_fakes_note_jobs_and_refuse_wrong_ones
    fake = FakeProducer.new
    fake.enqueue('mail.send', { to: 'ann', items: [{ n: 1 }] }, delay: 60, headers: { tenant: 9 })
    fake.enqueue_many([{ type: 'mail.send', payload: { to: 'bob' } }])
    fake.assert_enqueued('mail.send', { to: 'ann', items: [{ n: Integer }] })
    fake.assert_enqueued('mail.send', { to: /b/ })
    fake.assert_enqueued('mail.send', times: 2)
    fake.assert_not_enqueued('mail.send', { to: 'eve' })
    assert_equal ['scheduled', { 'tenant' => '9' }], [fake.jobs[0].state, fake.jobs[0].headers]
    error = assert_raises(Minitest::Assertion) { fake.assert_enqueued('mail.send', { to: 'eve' }) }
    assert_match(/expected 1 mail.send with .*, but there are 0; submitted were mail.send/, error.message)
    assert_raises(InvalidSubmission) { fake.enqueue('mail', attempts: 3) }
    assert_raises(NotEnded) { fake.wait(fake.jobs[0].id) }
    fake.clear
    fake.assert_nothing_enqueued
    http = FakeHttp.new
    assert_equal [true, false], Array.new(2) { http.enqueue('a', id: '7').new? }
    assert_equal [true, false], Array.new(2) { http.enqueue('a', unique: 'k', durability: 'aof').new? }
  end
end
