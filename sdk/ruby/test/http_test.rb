# frozen_string_literal: true

require_relative 'helper'

# Submissions by the HTTP API, with a console that is played and loses answers.
class HttpTest < Minitest::Test
  include Streamfleet

  MADE = { id: 'key-1', queue: 'default', lane: 'normal', state: 'waiting', existing: false }.freeze
  RESET = :reset

  # A console that answers requests one after the other; the last answer stays. Yields an Http, and what the console got.
  def with_console(*answers, **options)
    server = TCPServer.new('127.0.0.1', 0)
    got = Thread::Queue.new
    threads = ThreadGroup.new
    thread = Thread.new { loop { server.accept.then { |socket| threads.add(Thread.new { serve(socket, answers, got) }) } } }
    yield Http.new(url: "http://127.0.0.1:#{server.addr[1]}", token: 'secret-token', timeout: 5, **options), got
  ensure
    thread&.kill
    threads&.list&.each(&:kill)
    server&.close
  end

  def serve(socket, answers, got)
    while (line = socket.gets)
      headers = {}
      while (header = socket.gets.chomp) && !header.empty?
        name, value = header.split(': ', 2)
        headers[name.downcase] = value
      end
      got << { line: line.split.first(2), headers: headers, body: socket.read(headers['content-length'].to_i) }
      answer = answers.size > 1 ? answers.shift : answers.first
      return socket.close if answer == RESET
      return sleep if answer == :silent

      status, body, more = answer
      body = body.is_a?(String) ? body : JSON.generate(body)
      extra = (more || {}).map { |name, value| "#{name}: #{value}\r\n" }.join
      socket.write("HTTP/1.1 #{status} x\r\nContent-Length: #{body.bytesize}\r\n#{extra}\r\n#{body}")
    end
  end

  def all(queue)
    Array.new(queue.size) { queue.pop }
  end

  def test_a_job_is_a_request_with_a_token_and_a_key
    with_console([201, MADE]) do |http, got|
      accepted = http.enqueue('mail.send', { to: 'ann' }, queue: 'mail', unique: 'k')
      assert_equal Accepted.new(id: 'key-1', state: 'waiting', new?: true, replaced: nil, debounced?: false), accepted
      request = got.pop
      assert_equal ['POST', '/api/v1/queues/mail/jobs'], request[:line]
      assert_equal 'Bearer secret-token', request[:headers]['authorization']
      assert_match(/\A[0-9a-f-]{36}\z/, request[:headers]['idempotency-key'])
      assert_equal({ 'lane' => 'normal', 'type' => 'mail.send', 'unique' => 'k', 'payload' => { 'to' => 'ann' } }, JSON.parse(request[:body]))
    end
  end

  def test_a_request_whose_answer_is_lost_is_repeated_as_it_was
    with_console(RESET, [502, '<html>'], [200, '"x"'], [200, MADE.merge(existing: true)]) do |http, got|
      refute http.enqueue('a', 1).new?
      requests = all(got)
      assert_equal [4, 1, 1], [requests.size, requests.map { |request| request[:body] }.uniq.size, requests.map { |request| request[:headers]['idempotency-key'] }.uniq.size]
    end
    with_console(RESET, [201, MADE]) do |http, got|
      http.enqueue('a', id: 'order-7')
      assert_equal [nil, nil], all(got).map { |request| request[:headers]['idempotency-key'] }
    end
  end

  ERRORS = [
    [[422, { detail: '/delay: wrong', errors: [{ at: '/delay' }] }], InvalidSubmission, %r{/delay: wrong .*status 422}, 1],
    [[401, { detail: 'not known' }], Refused, /streamfleet console token/, 1],
    [[403, { detail: 'no' }], Refused, /role submitter/, 1],
    [[429, { detail: 'the queue is full' }], Refused, /the queue is full/, 2],
    [[503, { detail: 'Redis is silent' }], Unconfirmed, /Redis is silent/, 2],
    [[504, { detail: 'accepted, not confirmed' }], Unconfirmed, /accepted, not confirmed/, 1],
    [[200, '<html>'], Unconfirmed, /names no job/, 2],
    [[302, ''], Refused, /status 302/, 1],
    [RESET, Unconfirmed, /cannot be reached/, 2]
  ].freeze

  def test_errors_say_what_to_do_and_never_the_token
    ERRORS.each do |answer, kind, why, times|
      with_console(answer, retries: 1) do |http, got|
        error = assert_raises(kind, answer.inspect) { http.enqueue('a') }
        assert_match why, error.message
        refute_match(/secret-token/, error.message)
        assert_equal times, got.size, answer.inspect
        assert_equal ['/delay'], error.fields if error.is_a?(InvalidSubmission)
      end
    end
    nobody = Http.new(url: "http://127.0.0.1:#{Helper.free_port}", token: 't', retries: 1)
    assert_raises(Refused) { nobody.enqueue('a') }
    with_console(:silent, retries: 0) do |http, _|
      http.instance_variable_set(:@timeout, 0.1)
      assert_raises(Unconfirmed) { http.enqueue('a') }
    end
    { {} => ArgumentError, { url: 'redis://x', token: 't' } => ArgumentError, { url: 'http://a:b@x', token: 't' } => ArgumentError, { url: 'http://x', token: nil } => ArgumentError }.each do |options, kind|
      assert_raises(kind) { Http.new(**options) }
    end
  end

  def test_a_full_queue_is_asked_again_when_it_says
    with_console([429, { detail: 'full' }, { 'Retry-After' => '1' }], [201, MADE]) do |http, _|
      begun = Helper.now
      http.enqueue('a')
      assert_operator Helper.now - begun, :>, 0.9
    end
    with_console([429, { detail: 'full' }, { 'Retry-After' => '60' }]) { |http, got| assert_raises(Refused) { http.enqueue('a') } && assert_equal(1, got.size) }
  end

  def test_many_jobs_are_lines
    fate = ->(line, more = { id: "j#{line}" }) { "#{JSON.generate({ line: line, **more })}\n" }
    done = "#{JSON.generate(done: true)}\n"
    unknown = { problem: { status: 503, detail: 'silent' } }
    with_console([200, fate[1]], [200, fate[1] + fate[2, unknown] + done], [200, fate[1] + fate[2] + done]) do |http, got|
      assert_equal %w[j1 j2], http.enqueue_many([{ type: 'a', payload: 1 }, { 'type' => 'b', lane: 'low' }])
      requests = all(got)
      assert_equal ["{\"lane\":\"normal\",\"type\":\"a\",\"payload\":1}\n{\"lane\":\"low\",\"type\":\"b\"}"], requests.map { |request| request[:body] }.uniq
      assert_equal 1, requests.map { |request| request[:headers]['idempotency-key'] }.uniq.size
    end
    with_console([200, fate[1] + fate[2, { problem: { status: 422, detail: '/type: no' } }] + done]) do |http, _|
      error = assert_raises(BulkError) { http.enqueue_many([{ type: 'a' }, { type: 'b' }]) }
      assert_equal [['j1', nil], InvalidSubmission], [error.ids, error.errors[1].class]
    end
  end

  def test_batches_and_waiting
    with_console(RESET, [200, { batch: 'a/b', ids: %w[a/b.0 own] }]) do |http, got|
      assert_equal %w[a/b.0 own], http.batch('a/b', [{ type: 'a', payload: 1 }, { type: 'b', id: 'own' }], { type: 'total', queue: 'mail' })
      requests = all(got)
      assert_equal ['PUT', '/api/v1/queues/mail/batches/a%2Fb'], requests[0][:line]
      assert_equal requests[0][:body], requests[1][:body]
      assert_raises(InvalidSubmission) { http.batch('b', [], { type: 'a' }) }
    end
    running = [200, { id: '..', state: 'running', progress: { percent: 40, message: 'half' } }]
    with_console(running, [200, { id: '..', state: 'done', result: { encoding: 'base64', data: '/wA=' } }]) do |http, got|
      assert_equal "\xFF\x00".b, http.wait('..', timeout: 20).value
      assert_match %r{/jobs/\.\.%20\?wait=[0-9]+ms}, got.pop[:line][1]
    end
    with_console(running) do |http, _|
      assert_raises(NotEnded) { http.wait('7', timeout: 0) }
      assert_equal 'half', http.status('7').note
    end
    with_console([404, { detail: 'no' }]) do |http, _|
      assert_nil http.status('7')
      assert_match(/not known/, assert_raises(NotEnded) { http.wait('7', timeout: 0.1) }.message)
    end
  end

  def test_threads_have_connections_of_their_own
    with_console([201, MADE]) { |http, got| Array.new(4) { Thread.new { http.enqueue('a') } }.each(&:join) && assert_equal(4, got.size) }
  end
end
