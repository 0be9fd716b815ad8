# frozen_string_literal: true

require_relative 'helper'

# The trace of a job, with a stub that has what the documentation of OpenTelemetry's API says.
class TraceTest < Minitest::Test
  include Streamfleet

  PARENT = "00-#{'a' * 32}-#{'b' * 16}-01"

  # The API, as far as it is used: a context that is current for a block, and a propagator that reads and writes a hash.
  module Stub
    Propagation = Struct.new(:current) do
      def inject(carrier)
        carrier.merge!(Context.current || {})
      end

      def extract(carrier)
        carrier
      end
    end

    module Context
      class << self
        attr_accessor :current

        def with_current(context)
          before = current
          self.current = context
          yield context
        ensure
          self.current = before
        end
      end
    end

    def self.propagation
      @propagation ||= Propagation.new
    end
  end

  def test_without_the_api_a_job_has_the_trace_of_the_job_that_submits_it
    assert_equal %w[type a], Submission.new('a').fields
    job = Job.new('a', traceparent: PARENT, headers: { 'tracestate' => 's=1' })
    Job.with(job) { assert_equal ['type', 'b', 'traceparent', PARENT, 'h.tracestate', 's=1'], Submission.new('b').fields }
    assert_nil Job.current
  end

  def test_a_tracestate_that_breaks_the_standard_is_left_out
    members = (0...32).map { |nth| "k#{nth}=1" }.join(',')
    long = "a=#{'x' * 250},b=#{'y' * 250},c="
    ['a=1', 'a=1 , ,b=2', members, "#{long}12"].each { |good| assert_equal good, Submission.new('a', traceparent: PARENT, tracestate: good).fields.last }
    ['', ',', 'a', 'a=', 'A=1', 'a=1,a=2', 'a=b=c', 'a=ü', "a=1\r\nx: y", "#{members},k=1", "#{long}123456789"].each do |bad|
      assert_equal ['type', 'a', 'traceparent', PARENT], Submission.new('a', traceparent: PARENT, tracestate: bad).fields
      assert_nil Job.new('a', headers: { 'tracestate' => bad }).tracestate
    end
  end

  def test_with_the_api_the_active_span_goes_into_jobs_and_handlers_continue_it
    Object.const_set(:OpenTelemetry, Stub)
    assert_equal %w[type a], Submission.new('a').fields
    OpenTelemetry::Context.with_current({ 'traceparent' => PARENT, 'tracestate' => 's=1' }) do
      assert_equal ['type', 'a', 'traceparent', PARENT, 'h.tracestate', 's=1'], Submission.new('a').fields
      assert_equal ['type', 'a', 'traceparent', '00-own'], Submission.new('a', traceparent: '00-own').fields
    end
    seen = nil
    worker = Worker.new.on('a') { seen = OpenTelemetry::Context.current }
    worker.outcome(Job.new('a', traceparent: PARENT, headers: { 'tracestate' => 's=1' }))
    assert_equal({ 'traceparent' => PARENT, 'tracestate' => 's=1' }, seen)
  ensure
    Object.send(:remove_const, :OpenTelemetry)
  end
end
