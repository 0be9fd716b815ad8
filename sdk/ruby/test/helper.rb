# frozen_string_literal: true

# What the tests need: Redis servers and programs of their own, which are ended for certain, and a worker that is played.

require 'json'
require 'minitest/autorun'
require 'open3'
require 'socket'
require 'tmpdir'
require 'fileutils'
require 'redis'
require_relative '../lib/streamfleet'

module Helper
  DEADLINE = 60
  SDK = File.expand_path('..', __dir__)
  BIN = ENV['STREAMFLEET_BIN']
  RUBY = [RbConfig.ruby, "-I#{SDK}/lib"].freeze

  module_function

  def free_port
    server = TCPServer.new('127.0.0.1', 0)
    server.addr[1].tap { server.close }
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  def eventually(what, within = DEADLINE)
    deadline = now + within
    loop do
      found = yield
      return found if found
      raise "#{what}: not within #{within} s" if now > deadline

      sleep 0.01
    end
  end

  # A folder with a Redis server; programs that are started in it are ended.
  def staged
    Dir.mktmpdir('streamfleet-ruby-') do |folder|
      stage = Stage.new(folder)
      begin
        yield stage
      rescue StandardError, Minitest::Assertion => e
        raise e.class, "#{e.message}\n#{stage.logs}", e.backtrace
      ensure
        stage.end
      end
    end
  end

  class Stage
    attr_reader :folder, :port, :programs

    def initialize(folder)
      @folder = folder
      @port = Helper.free_port
      @programs = []
      start('redis', [ENV['STREAMFLEET_TEST_REDIS'] || 'redis-server', '--port', port.to_s, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', folder])
      Helper.eventually('the server') do
        redis.ping == 'PONG'
      rescue Redis::BaseConnectionError
        false
      end
    end

    def redis
      @redis ||= Redis.new(url: url)
    end

    def url
      "redis://127.0.0.1:#{port}"
    end

    # Starts a program in the folder; what it prints goes into NAME.log.
    def start(name, command, env = {})
      pid = spawn(env, *command, chdir: folder, in: File::NULL, %i[out err] => [path("#{name}.log"), 'a'], pgroup: true)
      programs << pid
      pid
    end

    def kill(pid, signal = 'KILL')
      Process.kill(signal, pid)
      programs.delete(pid)
      Process.wait2(pid)[1]
    end

    def path(name)
      File.join(folder, name)
    end

    def write(name, text)
      File.write(path(name), text)
    end

    # The lines of JSON of a file.
    def journal(name)
      File.exist?(path(name)) ? File.readlines(path(name)).select { |line| line.end_with?("\n") }.map { |line| JSON.parse(line) } : []
    end

    # Starts a worker with this configuration, beside what every worker here needs.
    def worker(toml, name: 'worker', command: 'worker', env: {})
      write("#{name}.toml", "[redis]\nurl = \"#{url}\"\n[telemetry]\nlisten = \"127.0.0.1:#{Helper.free_port}\"\n#{toml}")
      start(name, [BIN, '--config', "#{name}.toml", command], env)
    end

    def logs
      Dir[path('*.log')].sort.map { |file| "#{File.basename(file)}:\n#{File.read(file)[-3000..] || File.read(file)}" }.join("\n")
    end

    def end
      programs.reverse_each do |pid|
        Process.kill('KILL', -pid)
        Process.wait(pid)
      rescue SystemCallError
        nil
      end
    end
  end

  # A program of a pool, to which a test writes what a worker would.
  class Program
    attr_reader :errors

    # @param code [String] the program
    def initialize(code, env: {}, args: nil)
      command = args || [*RUBY, '-rstreamfleet', '-e', code]
      @stdin, @stdout, stderr, @thread = Open3.popen3({ 'STREAMFLEET_POOL' => 'ruby', 'STREAMFLEET_PROTOCOL' => '1' }.merge(env), *command)
      @errors = +''
      @reader = Thread.new { stderr.each_line { |line| @errors << line } }
      @refs = 0
    end

    def self.with(code, **options)
      program = new(code, **options)
      yield program
    ensure
      program&.kill
    end

    def send(message)
      @stdin.puts(JSON.generate(message))
    end

    def hello(inflight: 1, **more)
      send({ type: 'hello', protocol: 1, streamfleet: '0.9.0', pool: 'ruby', inflight: inflight, ahead: 0, **more })
      read
    end

    def read
      line = Timeout.timeout(DEADLINE) { @stdout.gets }
      line && JSON.parse(line)
    end

    def job(type, payload = nil, **more)
      ref = (@refs += 1).to_s
      body = more.key?(:payload_base64) ? {} : { payload: payload }
      send({ type: 'job', ref: ref, id: "job-#{ref}", job_type: type, queue: 'default', attempt: 1, max_attempts: 5, timeout_ms: 30_000,
             created_ms: 1_700_000_000_000, headers: {}, encoding: 'json', new: 1, **body, **more })
      ref
    end

    # The next result, without what was logged before it.
    def result
      loop do
        message = read
        raise "the program ended: #{errors}" if message.nil?
        return message.except('type') if message['type'] == 'result'
      end
    end

    def ask(type, payload = nil, **more)
      ref = job(type, payload, **more)
      found = result
      raise "#{found} is not about #{ref}" if found['ref'] != ref

      found.except('ref')
    end

    def close
      @stdin.close
    end

    def signal(name)
      Process.kill(name, @thread.pid)
    end

    # Everything up to the end of the output, and the exit code.
    def end
      lines = []
      while (line = read)
        lines << line
      end
      [lines, @thread.value.exitstatus]
    end

    def kill
      Process.kill('KILL', @thread.pid)
    rescue SystemCallError
      nil
    ensure
      @thread.join
      @reader.join
    end
  end
end
