# frozen_string_literal: true

require 'json'

module Streamfleet
  class Codecs
    # MessagePack as JSON, as the worker gives it to handlers.
    class MessagePack
      # The worker reads no deeper MessagePack.
      DEPTH = 64
      NUMBERS = { 0xca => ['g', 4], 0xcb => ['G', 8], 0xcc => ['C', 1], 0xcd => ['n', 2], 0xce => ['N', 4], 0xcf => ['Q>', 8],
                  0xd0 => ['c', 1], 0xd1 => ['s>', 2], 0xd2 => ['l>', 4], 0xd3 => ['q>', 8] }.freeze
      # What has a length, by its first byte.
      LENGTHS = { 0xd9 => [:text, 'C', 1], 0xda => [:text, 'n', 2], 0xdb => [:text, 'N', 4], 0xdc => [:array, 'n', 2], 0xdd => [:array, 'N', 4],
                  0xde => [:map, 'n', 2], 0xdf => [:map, 'N', 4] }.freeze
      WORDS = { 0xc0 => 'null', 0xc2 => 'false', 0xc3 => 'true' }.freeze

      # The JSON of a value.
      #
      # @raise [ArgumentError] it is no MessagePack, or JSON would lose something of it: bytes, keys that are not texts, NaN
      def self.json(bytes)
        bytes.empty? ? 'null' : new(bytes.b).whole
      end

      def initialize(bytes)
        @bytes = bytes
        @at = 0
      end

      def whole
        json = value(0)
        raise ArgumentError, 'bytes follow the MessagePack' if @at != @bytes.bytesize

        json
      end

      private

      def value(depth)
        first = take(1).ord
        return WORDS[first] if WORDS.key?(first)
        return (first <= 0x7f ? first : first - 256).to_s if first <= 0x7f || first >= 0xe0
        return number(*NUMBERS[first]) if NUMBERS.key?(first)

        sized(*kind(first), depth)
      end

      def number(form, size)
        value = take(size).unpack1(form)
        raise ArgumentError, 'JSON has no such number' unless value.is_a?(Integer) || value.finite?

        JSON.generate(value)
      end

      # What has a length, and the length.
      def kind(first)
        if LENGTHS.key?(first)
          kind, form, size = LENGTHS[first]
          return [kind, take(size).unpack1(form)]
        end
        return [:map, first & 15] if first <= 0x8f
        return [:array, first & 15] if first <= 0x9f
        return [:text, first & 31] if first <= 0xbf

        raise ArgumentError, 'JSON has no such value'
      end

      def sized(kind, length, depth)
        # Each value has a byte at least, so a hostile length takes no memory.
        raise ArgumentError, 'the MessagePack is cut off' if length > @bytes.bytesize - @at
        return text(take(length)) if kind == :text
        raise ArgumentError, 'it is nested too deep' if depth >= DEPTH

        return "[#{Array.new(length) { value(depth + 1) }.join(',')}]" if kind == :array

        pairs = Array.new(length) do
          key = value(depth + 1)
          raise ArgumentError, 'a key is not a text' unless key.start_with?('"')

          "#{key}:#{value(depth + 1)}"
        end
        "{#{pairs.join(',')}}"
      end

      def text(bytes)
        text = Wire.utf8(bytes)
        raise ArgumentError, 'a text is not UTF-8' if text.nil?

        JSON.generate(text)
      end

      def take(size)
        taken = @bytes.byteslice(@at, size)
        raise ArgumentError, 'the MessagePack is cut off' if taken.nil? || taken.bytesize != size

        @at += size
        taken
      end
    end
  end
end
