# frozen_string_literal: true

require 'json'

module Streamfleet
  # What a job's record says.
  class Status
    attr_reader :id, :state, :type, :created_at, :error, :progress, :note, :result

    def initialize(id, state:, type: nil, created_ms: nil, error: nil, progress: nil, note: nil, result: nil)
      @id = id
      @state = state
      @type = type
      @created_at = created_ms && Time.at(created_ms.to_i / 1000.0)
      @error = error unless state == 'done'
      @progress = progress&.to_f
      @note = note
      @result = Status.bytes_or(result)
    end

    # Whether it is done, dead or cancelled.
    def ended?
      %w[done dead cancelled].include?(state)
    end

    # Returns the result of a job that is done, nil if there is none yet.
    #
    # @raise [JobFailed] for one that is dead or cancelled
    def value
      raise JobFailed, self if %w[dead cancelled].include?(state)

      state == 'done' ? result : nil
    end

    # Bytes are kept as an object with their encoding.
    def self.bytes_or(value)
      return value unless value.is_a?(Hash) && value.keys.sort == %w[data encoding] && value['encoding'] == 'base64'

      value['data'].unpack1('m')
    end
  end
end
