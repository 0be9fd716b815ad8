# frozen_string_literal: true

require 'json'

module Streamfleet
  # Standard input and output, once they belong to the protocol: whatever else is printed, by this process or by a program that it starts, goes to
  # standard error, and whatever else reads finds nothing.
  module Pipes
    class << self
      attr_reader :input, :output

      def claim
        return self if @input

        @input = $stdin.dup
        @output = Output.new($stdout.dup)
        [@input, $stdin, $stdout].each(&:binmode)
        $stdin.reopen(File::NULL)
        $stdout.reopen($stderr)
        $stdout.sync = true
        # A program that a handler starts is not started by the worker.
        %w[STREAMFLEET_POOL STREAMFLEET_PROTOCOL].each { |name| ENV.delete(name) }
        self
      end
    end
  end

  # Writes whole lines, from any thread.
  class Output
    MOST_LINE_BYTES = 16 * 1024 * 1024

    attr_accessor :max_line

    def initialize(io)
      @io = io
      @io.sync = true
      @lock = Mutex.new
      @max_line = MOST_LINE_BYTES
    end

    # @return [Boolean] false if the line is too long, and was not written
    def write(message)
      line = "#{JSON.generate(message, max_nesting: MOST_LEVELS + 10)}\n"
      return false if line.bytesize > max_line + 1

      @lock.synchronize { @io.write(line) }
      true
    rescue Errno::EPIPE
      # The worker is gone, and it takes its programs with it.
      Kernel.exit!(1)
    end
  end
end

# The worker started this program: nothing that is printed from now on may reach it, not even while files are loaded.
if ENV['STREAMFLEET_DESCRIBE'] == '1'
  Streamfleet::Pipes.singleton_class.attr_accessor :described
  Streamfleet::Pipes.described = $stdout.dup
  $stdout.reopen($stderr)
elsif ENV.key?('STREAMFLEET_PROTOCOL')
  Streamfleet::Pipes.claim
end
