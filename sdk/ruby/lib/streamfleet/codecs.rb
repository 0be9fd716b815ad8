# frozen_string_literal: true

require 'openssl'
require 'stringio'
require 'zlib'
require_relative 'codecs/header'
require_relative 'codecs/keys'
require_relative 'codecs/claims'
require_relative 'codecs/message_pack'

module Streamfleet
  # A payload cannot be encoded or decoded. A job is tried again then by the policy of its type: a key or an object may arrive.
  class CodecError < StandardError
  end

  # What is done to payloads: they are compressed, then encrypted, then stored apart, as far as this says so. See docs/codecs.md.
  #
  # Give it to a Producer and to a Worker, or as the option `codecs` of a job. A payload without the header `codec` is left as it is.
  class Codecs
    NONCE = 12
    TAG = 16
    CHUNK = 8192

    # @param keys [Keys, nil] encrypts every payload with the first key
    # @param compress compresses payloads of more than `compress_above` bytes, if that makes them smaller
    # @param claims where payloads of more than `claim_above` bytes are stored: a Directory, an S3 or a store of yours
    # @param max_bytes the most bytes that a payload may have, stored apart or decompressed
    def initialize(keys: nil, compress: false, claims: nil, compress_above: 1024, claim_above: 256 * 1024, max_bytes: 64 * 1024 * 1024)
      raise ArgumentError, 'keys must be Codecs::Keys' unless keys.nil? || keys.is_a?(Keys)
      raise ArgumentError, 'compress_above and claim_above must not be negative, and max_bytes must be at least 1' if [compress_above, claim_above, max_bytes - 1].min.negative?

      @keys = keys
      @compress = compress
      @claims = claims
      @compress_above = compress_above
      @claim_above = claim_above
      @max_bytes = max_bytes
    end

    # Returns the header, and the bytes to send with the encoding raw. Without a header, nothing was done.
    #
    # @raise [CodecError] the store does not take the bytes
    def encode_payload(type, encoding, payload)
      raise InvalidSubmission, "the payload has #{payload.bytesize} bytes; the most is #{@max_bytes}" if payload.bytesize > @max_bytes

      bytes = payload.b
      smaller = @compress && bytes.bytesize > @compress_above ? Zlib.gzip(bytes) : bytes
      header = Header.new(encoding, smaller.bytesize < bytes.bytesize, @keys&.first, nil)
      bytes = smaller if header.gzip
      bytes = sealed(type, header, bytes, OpenSSL::Random.random_bytes(NONCE)) if header.key
      if @claims && bytes.bytesize > @claim_above
        header.claim = stored(bytes)
        bytes = ''.b
      end
      header.plain? ? [nil, payload] : [header.to_s, bytes]
    end

    # Returns the encoding of the plain payload, and its bytes. `encoding` is what the job itself names.
    #
    # @raise [CodecError] it cannot be decoded, or not yet
    def decode_payload(type, header, payload, encoding = 'raw')
      told = Header.parse(header) || raise(CodecError, "the header codec is not one that this version reads: #{header[0, 100].inspect}")
      raise CodecError, "the job has the header codec, so its encoding must be raw, not #{encoding[0, 20]}" if encoding != 'raw'

      bytes = told.claim ? claimed(told.claim, payload) : payload
      bytes = opened(type, told, bytes) if told.key
      bytes = inflated(bytes) if told.gzip
      [told.encoding, bytes]
    end

    private

    def stored(bytes)
      sha256 = OpenSSL::Digest::SHA256.hexdigest(bytes)
      @claims.put(sha256, bytes)
      sha256
    rescue StandardError => e
      raise CodecError, "the store does not take the payload sha256 #{sha256}, so nothing was sent: #{e.message}"
    end

    def claimed(sha256, payload)
      raise CodecError, 'the payload is stored apart, but the job has bytes of its own' unless payload.empty?
      raise CodecError, "the payload is stored apart, sha256 #{sha256}, and this program has no store: Codecs.new(claims: …)" if @claims.nil?

      most = @max_bytes + NONCE + TAG
      bytes = read(sha256, most)
      raise CodecError, "the store has no payload sha256 #{sha256}: it was deleted, or is not there yet" if bytes.nil?
      raise CodecError, "the stored payload sha256 #{sha256} has more than #{most} bytes" if bytes.bytesize > most
      raise CodecError, "the stored payload sha256 #{sha256} has other bytes: it was changed" if OpenSSL::Digest::SHA256.hexdigest(bytes) != sha256

      bytes
    end

    def read(sha256, most)
      @claims.get(sha256, most)
    rescue StandardError => e
      raise CodecError, "the store cannot be read for the payload sha256 #{sha256}: #{e.message}"
    end

    def opened(type, told, bytes)
      key = @keys&.get(told.key) || raise(CodecError, "the payload is encrypted with the key #{told.key}, which this program does not have")
      size = bytes.bytesize - NONCE - TAG
      raise CodecError, 'the encrypted payload is too short' if size.negative?

      cipher = cipher_of(key, :decrypt, bytes.byteslice(0, NONCE), type, told)
      cipher.auth_tag = bytes.byteslice(-TAG, TAG)
      run(cipher, bytes.byteslice(NONCE, size))
    rescue OpenSSL::Cipher::CipherError
      raise CodecError, "the payload does not fit the key #{told.key}, the type #{type} and the header: it was changed or moved"
    end

    def sealed(type, header, bytes, nonce)
      cipher = cipher_of(@keys.get(header.key), :encrypt, nonce, type, header)
      nonce + run(cipher, bytes) + cipher.auth_tag(TAG)
    end

    # A ciphertext is bound to the type of its job, and to the header.
    def cipher_of(key, way, nonce, type, header)
      cipher = OpenSSL::Cipher.new('aes-256-gcm').public_send(way)
      cipher.key = key
      cipher.iv = nonce
      cipher.auth_data = "#{type}\n#{header.sealed}"
      cipher
    end

    # OpenSSL refuses to encrypt nothing.
    def run(cipher, bytes)
      (bytes.empty? ? ''.b : cipher.update(bytes)) + cipher.final
    end

    # Decompresses one member of gzip, and never much more than the bound.
    def inflated(bytes)
      inflating = Zlib::Inflate.new(Zlib::MAX_WBITS + 16)
      plain = ''.b
      (0...bytes.bytesize).step(CHUNK) do |at|
        break if inflating.finished?

        plain << inflating.inflate(bytes.byteslice(at, CHUNK))
        raise CodecError, "the decompressed payload has more than #{@max_bytes} bytes" if plain.bytesize > @max_bytes
      end
      raise CodecError, 'the compressed payload is cut off' unless inflating.finished?
      raise CodecError, 'bytes follow the compressed payload' if inflating.total_in != bytes.bytesize

      plain
    rescue Zlib::Error => e
      raise CodecError, "the compressed payload is not gzip: #{e.message}"
    ensure
      inflating&.close
    end
  end
end
