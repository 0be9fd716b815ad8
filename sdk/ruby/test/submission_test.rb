# frozen_string_literal: true

require 'connection_pool'
require_relative 'helper'

# What a job becomes on the wire, and what is refused before anything is sent; with a real server.
class SubmissionTest < Minitest::Test
  include Streamfleet

  def test_every_option_is_a_field
    job = Submission.new('mail.send', { to: 'ann', n: 2**60, at: nil, list: [1.5, true] }, priority: 9, run_at: Time.at(1_900_000_000, 500, :millisecond), expires_at: 1_900_000_001,
                         id: 'order-7', headers: { tenant: 9 }, max_attempts: 4, timeout: 1.5, tracking: :all, on_success: 'a', on_failure: 'b',
                         then: [{ type: 'c', payload: { n: 1 }, queue: 'mail' }], batch: 'b', traceparent: '00-x', tracestate: 's=1')
    want = { 'type' => 'mail.send', 'payload' => '{"to":"ann","n":1152921504606846976,"at":null,"list":[1.5,true]}', 'id' => 'order-7', 'run_at_ms' => '1900000000500',
             'expires_at_ms' => '1900000001000', 'max_attempts' => '4', 'timeout_ms' => '1500', 'tracking' => 'all', 'on_success' => 'a', 'on_failure' => 'b',
             'then' => '[{"type":"c","payload":{"n":1},"queue":"mail"}]', 'batch' => 'b', 'traceparent' => '00-x', 'h.tenant' => '9', 'h.tracestate' => 's=1' }
    assert_equal want, job.fields.each_slice(2).to_h
    assert_equal 'high', job.lane
    assert_equal({ 'type' => 'blob', 'payload' => "\xFF\x00".b, 'encoding' => 'raw' }, Submission.new('blob', "\xFF\x00".b, encoding: 'raw').fields.each_slice(2).to_h)
    assert_equal %w[type a delay_ms 60000], Submission.new('a', delay: 60).fields
  end

  def test_a_line_has_what_the_api_takes
    job = Submission.new('a', { n: 1 }, lane: 'low', delay: 1, run_at: nil, expires_at: 1_900_000_000.5, unique: 'k', unique_scope: 1.5, unique_mode: :replace, tracking: 'all',
                         headers: { x: true }, idempotent_for: 60, durability: 'aof', traceparent: '00-x')
    assert_equal({ 'lane' => 'low', 'type' => 'a', 'headers' => { 'x' => 'true' }, 'delay' => 1000, 'expires_at' => '2030-03-17T17:46:40.500Z', 'track' => true,
                   'traceparent' => '00-x', 'unique' => 'k', 'unique_scope' => '1500ms', 'unique_mode' => 'replace', 'idempotent_for' => 60_000, 'durability' => 'aof',
                   'payload' => { 'n' => 1 } }, JSON.parse(job.line))
    assert_equal({ 'lane' => 'normal', 'type' => 'a', 'encoding' => 'raw', 'payload' => "x\ny" }, JSON.parse(Submission.new('a', "x\ny", encoding: 'raw').line))
    [[{ batch: 'b' }, nil], [{ tracking: 'none' }, nil], [{ encoding: 'raw' }, "\xFF".b], [{ encoding: 'msgpack' }, "\x90".b]].each do |options, payload|
      assert_raises(InvalidSubmission) { Submission.new('a', payload, **options).line }
    end
  end

  WRONG = [
    ['A', nil, {}, /type does not match/], ['a', nil, { attempts: 3 }, /there is no option 'attempts'; use max_attempts/], ['a', nil, { queue: 'A' }, /queue does not match/],
    ['a', nil, { delay: -1 }, /delay must be a number of seconds/], ['a', nil, { delay: '1m' }, /delay must be/], ['a', nil, { delay: 1, run_at: Time.now }, /not both/],
    ['a', nil, { run_at: 'soon' }, /run_at must be a Time/], ['a', nil, { id: '1-0' }, /must not look like/], ['a', nil, { id: 'a b' }, /white space/],
    ['a', nil, { lane: 'fast' }, /lane must be/], ['a', nil, { lane: 'low', priority: 1 }, /not both/], ['a', nil, { priority: 11 }, /priority must be/],
    ['a', nil, { max_attempts: 0 }, /max_attempts must be/], ['a', nil, { timeout: 0 }, /timeout in milliseconds/], ['a', nil, { tracking: 'some' }, /tracking must be all, failures or none/],
    ['a', Object.new, {}, /JSON has no Object/], ['a', { 1 => 2 }, {}, /a key must be a text/], ['a', Float::NAN, {}, /JSON has no NaN/], ['a', 2**64, {}, /64 bits/],
    ['a', "\xFF".b, {}, /bytes/], ['a', 1, { encoding: 'raw' }, /must be a text of bytes/], ['a', 'x' * (8 * 1024 * 1024), {}, /the most is/],
    ['a', nil, { headers: { x: [1] } }, /the header 'x' must be/], ['a', nil, { headers: { x: 'x' * 9000 } }, /too long/], ['a', nil, { then: [{ type: 'a', delay: 1 }] }, /but not 'delay'/],
     ['a', nil, { then: [{ type: 'a', queue: 'No' }] }, /queue does not match/],
    ['a', nil, { unique_mode: 'replace' }, /need unique/]
  ].freeze

  def test_what_breaks_the_contract_is_refused
    WRONG.each do |type, payload, options, why|
      error = assert_raises(InvalidSubmission, options.inspect) { Submission.new(type, payload, **options) }
      assert_match why, error.message
    end
    error = assert_raises(InvalidSubmission) { Producer.new(Redis.new(port: 1)).enqueue('a', unique: 'k') }
    assert_match(/cannot carry out unique: submit this job with Http/, error.message)
    assert_raises(ArgumentError) { Producer.new('redis://') }
  end

  def test_jobs_are_entries_of_a_stream
    Helper.staged do |stage|
      [stage.redis, ConnectionPool.new(size: 2) { Redis.new(url: stage.url) }].each do |client|
        stage.redis.flushall
        producer = Producer.new(client)
        id = producer.enqueue('a', { n: 1 }, queue: 'mail', lane: 'low')
        assert_equal [[id.delete_suffix('-low'), { 'type' => 'a', 'payload' => '{"n":1}' }]], stage.redis.xrange('sf:{mail}:jobs:low')
        ids = producer.enqueue_many(Array.new(1200) { |n| { type: 'a', payload: n, id: n.odd? ? "own-#{n}" : nil } })
        assert_equal [1200, 'own-1199', 1200], [ids.uniq.size, ids.last, stage.redis.xlen('sf:{default}:jobs')]
      end
      records(stage)
      refusals(stage)
    end
  end

  def records(stage)
    producer = Producer.new(stage.redis)
    assert_nil producer.status('7')
    stage.redis.mapped_hmset('sf:{default}:job:7', { state: 'running', type: 'a', progress: '40', note: 'half', created_ms: '1700000000000' })
    status = producer.status('7')
    assert_equal ['running', 40.0, 'half', 1_700_000_000], [status.state, status.progress, status.note, status.created_at.to_i]
    assert_raises(NotEnded) { producer.wait('7', timeout: 0.05) }
    stage.redis.mapped_hmset('sf:{default}:job:7', { state: 'done', result: '{"encoding":"base64","data":"/wA="}' })
    assert_equal "\xFF\x00".b, producer.wait('7').value
    stage.redis.mapped_hmset('sf:{default}:job:8', { state: 'dead', error: 'never' })
    assert_match(/is dead: never/, assert_raises(JobFailed) { producer.result('8') }.message)
  end

  def refusals(stage)
    stage.redis.set('sf:{full}:jobs', 'not a stream')
    producer = Producer.new(stage.redis)
    assert_match(/WRONGTYPE/, assert_raises(Redis::CommandError) { producer.enqueue('a', queue: 'full') }.message)
    gone = Producer.new(Redis.new(port: Helper.free_port, reconnect_attempts: 0))
    error = assert_raises(BulkError) { gone.enqueue_many(Array.new(501) { { type: 'a' } }) }
    assert_equal [NotSent, 501], [error.errors.last.class, error.ids.size - error.ids.compact.size]
  end
end
