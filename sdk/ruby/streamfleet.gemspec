# frozen_string_literal: true

require_relative 'lib/streamfleet/version'

Gem::Specification.new do |spec|
  spec.name = 'streamfleet'
  spec.version = Streamfleet::VERSION
  spec.summary = 'Submit jobs to a streamfleet fleet, and handle them, in Ruby; with an adapter for ActiveJob'
  spec.authors = ['The streamfleet developers']
  spec.licenses = ['MIT', 'Apache-2.0']
  spec.homepage = 'https://github.com/streamfleet/streamfleet/blob/main/sdk/ruby/README.md'
  spec.required_ruby_version = '>= 3.0'
  spec.files = Dir.chdir(__dir__) { Dir['lib/**/*.rb', 'exe/*', 'README.md', 'LICENSE*'] }
  spec.bindir = 'exe'
  spec.executables = ['streamfleet-pool']
end
