# frozen_string_literal: true

module Streamfleet
  # The trace of a job, if the application has loaded the API of OpenTelemetry. This gem does not depend on it.
  module Trace
    NAMES = %w[traceparent tracestate].freeze

    module_function

    # The options of a job, with the trace in which it is submitted, unless they name one: that of the active span, or of the job whose handler
    # submits it.
    def options(given)
      return given if given.key?(:traceparent)

      carrier = {}
      ::OpenTelemetry.propagation.inject(carrier) if defined?(::OpenTelemetry.propagation)
      job = Job.current
      carrier = { 'traceparent' => job&.traceparent, 'tracestate' => job&.tracestate } unless carrier['traceparent']
      found = NAMES.to_h { |name| [name.to_sym, carrier[name]] }.compact
      found.key?(:traceparent) ? given.merge(found) : given
    end

    # Runs a block in the trace of a job: spans that it makes are children of the attempt.
    def continued(job, &block)
      return yield unless job.traceparent && defined?(::OpenTelemetry.propagation)

      carrier = { 'traceparent' => job.traceparent, 'tracestate' => job.tracestate }.compact
      ::OpenTelemetry::Context.with_current(::OpenTelemetry.propagation.extract(carrier), &block)
    end
  end
end
