# frozen_string_literal: true

module Streamfleet
  class Codecs
    # Keys by their names. The first one encrypts; all decrypt, so that keys can be rotated.
    #
    # A file or a variable has `name:key` items that white space or commas separate, each key in base64: `openssl rand -base64 32` makes one. In a
    # file, a line that begins with # is a comment.
    class Keys
      BYTES = 32
      MOST_FILE_BYTES = 1024 * 1024

      class << self
        # Reads the keys from a file.
        def from_file(path)
          text = File.open(path, 'rb') { |file| file.read(MOST_FILE_BYTES) } || ''
          new(parsed(text.gsub(/^\s*#.*$/, ''), path.to_s), path.to_s)
        end

        # Reads the keys from a variable of the environment.
        def from_env(name)
          text = ENV.fetch(name) { raise ArgumentError, "the variable #{name} is not set: it must have the keys, as name:base64" }
          new(parsed(text, "the variable #{name}"), "the variable #{name}")
        end

        private

        # Reads `name:base64` items. No error shows a key.
        def parsed(text, place)
          text.split(/[\s,]+/).reject(&:empty?).each_with_index.with_object({}) do |(item, at), keys|
            name, data = item.split(':', 2)
            raise ArgumentError, "#{place}: item #{at + 1} must be name:key, with the key in base64" if data.nil?
            raise ArgumentError, "#{place}: there are two keys with the name #{name}" if keys.key?(name)

            keys[name] = decoded(data) || raise(ArgumentError, "#{place}: the key of item #{at + 1} is not base64: openssl rand -base64 32")
          end
        end

        def decoded(data)
          data.unpack1('m0')
        rescue ArgumentError
          nil
        end
      end

      # The name of the key that encrypts.
      attr_reader :first

      # @param keys [Hash] name => 32 bytes
      def initialize(keys, place = 'keys')
        raise ArgumentError, "#{place} has no key: it must have name:key, with the key in base64" if keys.empty?

        @keys = keys.to_h { |name, key| [name.to_s, checked(name.to_s, key, place)] }
        @first = @keys.keys.first
      end

      # The key of this name.
      def get(name)
        @keys[name]
      end

      # Nobody prints keys by accident.
      def inspect
        "#<Streamfleet::Codecs::Keys #{@keys.keys.join(', ')}>"
      end

      private

      def checked(name, key, place)
        unless /\A#{KEY_NAME}\z/.match?(name)
          raise ArgumentError, "#{place}: the name of a key has 1 to 64 letters, digits, '.', '_' and '-', and begins with a letter or digit"
        end
        size = key.is_a?(String) ? key.bytesize : 0
        raise ArgumentError, "#{place}: the key #{name} must have #{BYTES} bytes, not #{size}: openssl rand -base64 32" if size != BYTES

        key.b.freeze
      end
    end
  end
end
