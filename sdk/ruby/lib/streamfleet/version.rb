# frozen_string_literal: true

module Streamfleet
  VERSION = '0.1.0'
end
