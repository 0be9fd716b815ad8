# frozen_string_literal: true

module Streamfleet
  class Codecs
    # The header `codec`: what was done to the bytes of a payload, in order. The grammar is in docs/wire.md.
    Header = Struct.new(:encoding, :gzip, :key, :claim) do
      # Reads a header; nil if it breaks the grammar.
      def self.parse(text)
        found = text.bytesize <= MOST_HEADER_BYTES && text.valid_encoding? && HEADER.match(text)
        found ? new(found[1], !found[2].nil?, found[3], found[4]) : nil
      end

      # The header up to the encryption, which the ciphertext is bound to.
      def sealed
        [encoding, gzip ? 'gzip' : nil, key && "aes-256-gcm;key=#{key}"].compact.join(' ')
      end

      def to_s
        claim ? "#{sealed} claim;sha256=#{claim}" : sealed
      end

      # Whether nothing is done.
      def plain?
        !gzip && key.nil? && claim.nil?
      end
    end

    NAME = 'codec'
    KEY_NAME = /[A-Za-z0-9][A-Za-z0-9._-]{0,63}/
    HASH = /[0-9a-f]{64}/
    MOST_HEADER_BYTES = 256
    HEADER = /\A(json|msgpack|raw)(?=.)( gzip)?(?: aes-256-gcm;key=(#{KEY_NAME}))?(?: claim;sha256=(#{HASH}))?\z/

    # A hash chooses a place, so nothing else may become one.
    def self.checked_hash(sha256)
      return sha256 if /\A#{HASH}\z/.match?(sha256)

      raise ArgumentError, 'a hash must have 64 hexadecimal digits'
    end
  end
end
