# frozen_string_literal: true

require 'fileutils'
require 'securerandom'

module Streamfleet
  class Codecs
    # A folder, which all producers and handlers share: each file is in a folder of a folder, named by the first digits of its hash.
    #
    # A store of your own has these two methods, too.
    class Directory
      def initialize(path)
        @path = File.expand_path(path)
      end

      # Stores bytes under their hash. Bytes that are there already get the time of now, so that deletion by age is safe.
      def put(sha256, bytes)
        file = place(sha256)
        return if touched?(file, bytes.bytesize)

        folder = File.dirname(file)
        FileUtils.mkdir_p(folder)
        temporary = File.join(folder, ".#{SecureRandom.hex(8)}.tmp")
        begin
          write(temporary, bytes)
          File.rename(temporary, file)
        ensure
          FileUtils.rm_f(temporary)
        end
        File.open(folder, &:fsync)
      end

      # Reads the bytes of a hash; nil if there are none. Of more than `most` bytes, it may return any that are too many.
      def get(sha256, most)
        File.open(place(sha256), 'rb') { |file| file.read(most + 1) || ''.b }
      rescue Errno::ENOENT
        nil
      end

      private

      def place(sha256)
        File.join(@path, sha256[0, 2], sha256[2, 2], Codecs.checked_hash(sha256))
      end

      def touched?(file, size)
        return false if File.size?(file) != size

        File.utime(nil, nil, file)
        true
      rescue Errno::ENOENT, Errno::EACCES, Errno::EPERM
        # A file of another user is replaced.
        false
      end

      def write(file, bytes)
        File.open(file, File::WRONLY | File::CREAT | File::EXCL | File::BINARY) do |out|
          out.write(bytes)
          out.fsync
        end
      end
    end

    # A bucket of S3, or of a store that is compatible, by a client of the gem `aws-sdk-s3`: `S3.new(Aws::S3::Client.new, 'my-bucket')`.
    class S3
      MISSING = %w[NoSuchKey NotFound].freeze

      def initialize(client, bucket, prefix: '')
        @client = client
        @bucket = bucket
        @prefix = prefix
      end

      # Stores bytes under their hash. An object that is written again is as old as its last writing.
      def put(sha256, bytes)
        @client.put_object(bucket: @bucket, key: @prefix + Codecs.checked_hash(sha256), body: bytes)
      end

      # Reads the bytes of a hash; nil if there are none.
      def get(sha256, most)
        answer = @client.get_object(bucket: @bucket, key: @prefix + Codecs.checked_hash(sha256))
        answer.body.read(most + 1) || ''.b
      rescue StandardError => e
        # Aws::S3::Errors::NoSuchKey, whose gem is not required here.
        raise unless MISSING.include?(e.class.name.to_s.split('::').last)

        nil
      end
    end
  end
end
