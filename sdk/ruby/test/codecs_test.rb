# frozen_string_literal: true

require 'securerandom'
require_relative 'helper'

# Payloads that are encoded: the vectors that all packages share, keys, stores, and what a program of handlers makes of them.
class CodecsTest < Minitest::Test
  include Streamfleet

  VECTORS = JSON.parse(File.read(File.expand_path('../../../tests/codecs/vectors.json', __dir__)))
  KEYS = VECTORS['keys'].transform_values { |key| key.unpack1('m') }

  class Claims < Hash
    def put(sha256, bytes)
      self[sha256] = bytes
    end

    def get(sha256, _most)
      self[sha256]
    end
  end

  def vector_codecs
    claims = Claims.new.merge!(VECTORS['claims'].transform_values { |data| data.is_a?(Hash) ? "\0".b * data['zeros'] : data.unpack1('m') })
    Codecs.new(keys: Codecs::Keys.new(KEYS), claims: claims, max_bytes: VECTORS['max_bytes'])
  end

  def test_every_vector_is_opened
    VECTORS['opened'].each do |vector|
      opened = vector_codecs.decode_payload(vector['type'], vector['header'], vector['payload'].unpack1('m'))
      assert_equal [vector['encoding'], vector['plain'].unpack1('m')], opened, vector['what']
    end
  end

  def test_every_wrong_payload_is_refused_with_the_reason
    VECTORS['refused'].each do |vector|
      error = assert_raises(CodecError, vector['what']) do
        vector_codecs.decode_payload(vector['type'], vector['header'], vector['payload'].unpack1('m'), vector['encoding'])
      end
      assert_includes error.message, vector['error'], vector['what']
    end
  end

  def test_messagepack_is_json_if_it_loses_nothing
    VECTORS['packed'].each do |vector|
      bytes = vector['bytes'].unpack1('m')
      if vector['json'].nil?
        assert_raises(ArgumentError, bytes.unpack1('H*')) { Codecs::MessagePack.json(bytes) }
      else
        want, found = [vector['json'], Codecs::MessagePack.json(bytes)].map { |json| JSON.parse(json) }
        want.nil? ? assert_nil(found) : assert_equal(want, found)
      end
    end
  end

  def test_a_header_is_read_only_if_it_follows_the_grammar
    VECTORS['headers'].each { |text| assert_equal text, Codecs::Header.parse(text).to_s }
    VECTORS['no_headers'].each { |text| assert_nil Codecs::Header.parse(text), text.inspect }
    assert_nil Codecs::Header.parse("json gzip\xFF")
  end

  def test_each_combination_comes_back_as_it_was
    [nil, Codecs::Keys.new(KEYS)].product([false, true], [nil, Claims.new], ['', '1', SecureRandom.bytes(5000), 'naive ' * 5000]) do |keys, compress, claims, bytes|
      codecs = Codecs.new(keys: keys, compress: compress, claims: claims, claim_above: 2000)
      header, sent = codecs.encode_payload('a', 'raw', bytes)
      back = header ? codecs.decode_payload('a', header, sent) : ['raw', sent]
      assert_equal ['raw', bytes.b], [back[0], back[1].b]
    end
  end

  def test_nothing_is_done_that_gains_nothing
    codecs = Codecs.new(compress: true, claims: Claims.new)
    ['x' * 1024, SecureRandom.bytes(5000)].each { |bytes| assert_equal [nil, bytes], codecs.encode_payload('a', 'json', bytes) }
    header, bytes = codecs.encode_payload('a', 'json', 'x' * 1025)
    assert_equal 'json gzip', header
    assert_operator bytes.bytesize, :<, 100
  end

  def test_the_first_key_encrypts_and_all_decrypt
    old = Codecs.new(keys: Codecs::Keys.new({ 'a' => 'a' * 32 }))
    both = Codecs.new(keys: Codecs::Keys.new({ b: 'b' * 32, a: 'a' * 32 }))
    header, bytes = old.encode_payload('t', 'json', '1')
    assert_equal 'json aes-256-gcm;key=a', header
    assert_equal %w[json 1], both.decode_payload('t', header, bytes)
    header, bytes = both.encode_payload('t', 'json', '1')
    error = assert_raises(CodecError) { old.decode_payload('t', header, bytes) }
    assert_match(/encrypted with the key b, which this program does not have/, error.message)
  end

  # Notes commands.
  class Client
    attr_reader :sent

    def initialize
      @sent = []
    end

    def call(*command)
      sent << command
      '1-0'
    end

    def pipelined
      before = sent.size
      yield self
      ['1-0'] * (sent.size - before)
    end
  end

  def test_a_producer_encodes_every_job_and_it_may_be_large_before
    client = Client.new
    claims = Claims.new
    producer = Producer.new(client, codecs: Codecs.new(keys: Codecs::Keys.new(KEYS), claims: claims))
    producer.enqueue('a', { secret: 1 }, headers: { tenant: 9 })
    producer.enqueue_many([{ type: 'a', payload: { secret: 1 } }])
    client.sent.each do |command|
      refute_includes command.join, 'secret'
      fields = command.drop(3).each_slice(2).to_h
      assert_equal ['json aes-256-gcm;key=2026-11', 'raw'], fields.values_at('h.codec', 'encoding')
    end
    producer.enqueue('a', 'x' * (9 * 1024 * 1024))
    fields = client.sent.last.drop(3).each_slice(2).to_h
    assert_equal ['', "json aes-256-gcm;key=2026-11 claim;sha256=#{claims.keys.first}"], fields.values_at('payload', 'h.codec')
    assert_match(/belongs to codecs/, assert_raises(InvalidSubmission) { producer.enqueue('a', 1, headers: { codec: 'json gzip' }) }.message)
    assert_match(/a debounce/, assert_raises(InvalidSubmission) { Submission.new('a', 1, unique: 'k', unique_mode: :debounce, codecs: Codecs.new) }.message)
    assert_raises(InvalidSubmission) { Submission.new('a', 'x' * (9 * 1024 * 1024), codecs: Codecs.new) }
  end

  def test_a_store_that_fails_sends_nothing
    claims = Class.new { def put(*) = raise('the disk is full') }.new
    error = assert_raises(CodecError) { Codecs.new(claims: claims, claim_above: 0).encode_payload('a', 'json', '1') }
    assert_match(/so nothing was sent: the disk is full/, error.message)
  end

  def test_keys_are_read_from_a_file_and_a_variable
    one, two = ['1' * 32, '2' * 32].map { |key| [key].pack('m0') }
    Dir.mktmpdir do |folder|
      file = File.join(folder, 'keys')
      File.write(file, "# new\n2026-11:#{one}\n  # old\n\n2026-10:#{two}\n")
      keys = Codecs::Keys.from_file(file)
      assert_equal ['2026-11', '2' * 32, nil], [keys.first, keys.get('2026-10'), keys.get('x')]
    end
    with_keys("b:#{two},a:#{one}") { assert_equal 'b', Codecs::Keys.from_env('STREAMFLEET_TEST_KEYS').first }
  end

  def with_keys(text)
    ENV['STREAMFLEET_TEST_KEYS'] = text
    yield
  ensure
    ENV.delete('STREAMFLEET_TEST_KEYS')
  end

  def test_no_error_shows_a_key
    secret = ['canary-canary-canary-canary-cana'].pack('m0')
    { secret => /item 1 must be name:key/, "a:#{secret}!" => /item 1 is not base64/, "a:#{secret[0..-5]}" => /must have 32 bytes, not/, "a b:#{secret}" => /item 1 must be name:key/,
      "-a:#{secret}" => /the name of a key/, "a:#{secret} a:#{secret}" => /two keys/, '' => /has no key/ }.each do |text, why|
      error = with_keys(text) { assert_raises(ArgumentError) { Codecs::Keys.from_env('STREAMFLEET_TEST_KEYS') } }
      assert_match why, error.message
      refute_includes error.message, secret[0, 10]
    end
    refute_includes Codecs.new(keys: Codecs::Keys.new({ 'a' => 'c' * 32 })).inspect, 'ccc'
    assert_match(/is not set/, assert_raises(ArgumentError) { Codecs::Keys.from_env('STREAMFLEET_TEST_KEYS') }.message)
  end

  def test_a_directory_keeps_bytes_by_their_hash_and_renews_their_time
    Dir.mktmpdir do |folder|
      store = Codecs::Directory.new(File.join(folder, 'payloads'))
      name = Digest::SHA256.hexdigest('bytes')
      assert_nil store.get(name, 100)
      store.put(name, 'bytes')
      file = File.join(folder, 'payloads', name[0, 2], name[2, 2], name)
      assert_equal %w[bytes bytes], [File.read(file), store.get(name, 100)]
      File.utime(1, 1, file)
      store.put(name, 'bytes')
      assert_operator File.mtime(file), :>, Time.now - 60
      File.write(file, 'cut')
      store.put(name, 'bytes')
      assert_equal ['bytes', 4], [store.get(name, 100), store.get(name, 3).bytesize]
      assert_equal [name], Dir.children(File.dirname(file))
    end
  end

  # A bucket in memory.
  class Bucket
    NoSuchKey = Class.new(StandardError)
    Answer = Struct.new(:body)

    def objects
      @objects ||= {}
    end

    def put_object(bucket:, key:, body:)
      objects["#{bucket}/#{key}"] = body
    end

    def get_object(bucket:, key:)
      Answer.new(StringIO.new(objects.fetch("#{bucket}/#{key}") { raise NoSuchKey }))
    end
  end

  def test_a_bucket_is_reached_by_the_client_of_the_application
    bucket = Bucket.new
    store = Codecs::S3.new(bucket, 'payloads', prefix: 'jobs/')
    name = Digest::SHA256.hexdigest('bytes')
    assert_nil store.get(name, 100)
    store.put(name, 'bytes')
    assert_equal ["payloads/jobs/#{name}"], bucket.objects.keys
    assert_equal ['bytes', 4], [store.get(name, 100), store.get(name, 3).bytesize]
  end

  def test_nothing_but_a_hash_becomes_a_place
    ['', '../' * 30, 'A' * 64, '0' * 63, "#{'0' * 64}\n"].product([Codecs::Directory.new('/nowhere'), Codecs::S3.new(Bucket.new, 'bucket')]) do |wrong, store|
      assert_match(/64 hexadecimal digits/, assert_raises(ArgumentError) { store.get(wrong, 1) }.message)
      assert_match(/64 hexadecimal digits/, assert_raises(ArgumentError) { store.put(wrong, '') }.message)
    end
  end

  def with_program(uses: true, &block)
    Helper::Program.with(<<~RUBY, &block)
      include Streamfleet
      worker = Worker.new
      #{"worker.codecs(Codecs.new(keys: Codecs::Keys.new(#{VECTORS['keys'].inspect}.transform_values { |key| key.unpack1('m') })))" if uses}
      worker.use { |job, inner| $seen = job.payload; inner.call }
      worker.on('mail.send') do |job|
        payload = job.encoding == 'raw' || job.payload.is_a?(String) ? { base64: [job.payload].pack('m0') } : job.payload
        { payload: payload, encoding: job.encoding, headers: job.headers, seen: $seen == job.payload }
      end
      worker.run
    RUBY
  end

  def ask(program, bytes, header, encoding: 'raw')
    program.ask('mail.send', headers: { tenant: '9', codec: header }, encoding: encoding, payload_base64: [bytes].pack('m0'))
  end

  def test_a_handler_sees_no_difference
    codecs = Codecs.new(keys: Codecs::Keys.new(KEYS), compress: true)
    with_program do |program|
      program.hello
      plain = program.ask('mail.send', { to: 'ann' }, headers: { tenant: '9' })['result']
      [{ 'to' => 'ann' }, nil, ['é' * 3000]].each do |value|
        header, bytes = codecs.encode_payload('mail.send', 'json', value.nil? ? '' : JSON.generate(value))
        assert_equal plain.merge('payload' => value), ask(program, bytes, header)['result']
      end
      header, bytes = codecs.encode_payload('mail.send', 'msgpack', "\x81\xA2to\xA3ann".b)
      assert_equal({ 'to' => 'ann' }, ask(program, bytes, header)['result']['payload'])
      header, bytes = codecs.encode_payload('mail.send', 'msgpack', "\xC4\x01\xFF".b)
      assert_equal({ 'base64' => ["\xC4\x01\xFF".b].pack('m0') }, ask(program, bytes, header)['result']['payload'])
      header, bytes = codecs.encode_payload('mail.send', 'raw', "\xFF".b)
      assert_equal({ 'base64' => '/w==' }, ask(program, bytes, header)['result']['payload'])
      header, bytes = codecs.encode_payload('mail.send', 'json', '{no json')
      assert_equal ['json', { 'base64' => ['{no json'].pack('m0') }], ask(program, bytes, header)['result'].values_at('encoding', 'payload')
    end
  end

  def test_what_cannot_be_decoded_is_retried
    with_program do |program|
      program.hello
      answer = ask(program, 'x' * 40, 'json aes-256-gcm;key=2027-01')
      assert_equal ['retry', nil], answer.values_at('outcome', 'classes')
      assert_match(/encrypted with the key 2027-01, which this program does not have/, answer['error'])
      assert_equal 'retry', ask(program, 'x', 'json zip')['outcome']
      assert_equal 'done', program.ask('mail.send', 1)['outcome']
    end
  end

  def test_a_program_without_codecs_says_so_and_leaves_other_headers_alone
    with_program(uses: false) do |program|
      program.hello
      answer = ask(program, 'x', 'json gzip')
      assert_equal 'retry', answer['outcome']
      assert_match(/Worker#codecs/, answer['error'])
      assert_equal 'h264', ask(program, 'x', 'h264')['result']['headers']['codec']
    end
  end
end
