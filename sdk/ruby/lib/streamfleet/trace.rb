# frozen_string_literal: true

module Streamfleet
  # The trace of a job, if the application has loaded the API of OpenTelemetry. This gem does not depend on it.
  module Trace
    NAMES = %w[traceparent tracestate].freeze
    # The W3C standard: a member of a `tracestate`, and the most characters and members of one.
    MEMBER = %r{\A([a-z0-9][a-z0-9_\-*/@]{0,255})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]\z}
    MOST_CHARACTERS = 512
    MOST_MEMBERS = 32

    module_function

    # A `tracestate` that keeps the standard. Another one is left out as a whole: nil.
    def state(text)
      return unless text.is_a?(String) && text.size <= MOST_CHARACTERS && text.ascii_only?

      members = text.split(',').map { |member| member.gsub(/\A[ \t]+|[ \t]+\z/, '') }.reject(&:empty?)
      keys = members.map { |member| member[MEMBER, 1] }
      text if keys.size.between?(1, MOST_MEMBERS) && keys.all? && keys.uniq.size == keys.size
    end

    # The options of a job, with the trace in which it is submitted, unless they name one: that of the active span, or of the job whose handler
    # submits it.
    def options(given)
      return given if given.key?(:traceparent)

      carrier = {}
      ::OpenTelemetry.propagation.inject(carrier) if defined?(::OpenTelemetry.propagation)
      job = Job.current
      carrier = { 'traceparent' => job&.traceparent, 'tracestate' => job&.tracestate } unless carrier['traceparent']
      carrier['tracestate'] = state(carrier['tracestate'])
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
