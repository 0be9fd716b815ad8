# frozen_string_literal: true

require 'json'
require 'net/http'
require 'securerandom'
require 'uri'

module Streamfleet
  # What became of a submission by Http: the job's id and state; whether it is new; the job that it replaced; whether the holder of its unique key got
  # its payload and time.
  Accepted = Struct.new(:id, :state, :new?, :replaced, :debounced?, keyword_init: true)

  # Submits jobs by the HTTP API of `streamfleet console`, with a token: ids that are accepted once, unique keys, batches, waiting. It repeats
  # requests that may have failed on the way, and no job is submitted twice by that. It may be shared by threads: each has a connection of its own.
  class Http
    ROUND_JOBS = 500
    ROUND_BYTES = 4 * 1024 * 1024
    LONGEST_WAIT = 60
    FIRST_PAUSE = 0.1
    LONGEST_PAUSE = 5
    LOOK_AGAIN = 0.25
    # Another try may help: too many requests or a full queue, and answers of a proxy or of a console without Redis.
    TEMPORARY = [429, 502, 503, 504].freeze
    NOT_CONNECTED = [Errno::ECONNREFUSED, Errno::EHOSTUNREACH, Errno::ENETUNREACH, SocketError, Net::OpenTimeout].freeze
    BROKEN = [SystemCallError, IOError, SocketError, Timeout::Error, Net::HTTPBadResponse, Net::ProtocolError].freeze
    REMEDIES = {
      401 => 'give `token:` one that `streamfleet console token` has printed and the console knows',
      403 => 'give the token the role submitter for this queue, in the accounts of the console',
      421 => 'use the address of `console.public_url`'
    }.freeze
    Answer = Struct.new(:status, :text, :body)
    Failed = Struct.new(:error, :sent, :final, :pause)

    # @param url [String] the address of the console, such as http://127.0.0.1:9470
    # @param token [String, #call] what `streamfleet console token` has printed, or what returns it
    # @param timeout [Numeric] how many seconds one request may take
    # @param retries [Integer] how often a request is repeated
    def initialize(url:, token:, queue: 'default', timeout: 10, retries: 4)
      @url = address(url)
      raise ArgumentError, 'token must be what `streamfleet console token` has printed, or a block that returns it' if token.to_s.empty?

      @token = token
      @queue = Submission.queue(queue)
      @timeout = timeout
      @retries = retries
    end

    # Submits a job, and says whether it is new.
    #
    # @return [Accepted]
    def enqueue(type, payload = nil, **options)
      job = Submission.new(type, payload, **options)
      told = ask(:post, "#{path(job.queue)}/jobs", body: job.line, key: job.id ? nil : SecureRandom.uuid).body
      debounced = told['debounced'] == true
      Accepted.new(id: told['id'], state: told['state'], new?: !told['existing'] && !debounced, replaced: told['replaced'], debounced?: debounced)
    end

    # Submits many jobs, each a hash with a type, in few requests, and returns their ids in the same order. They are no transaction.
    def enqueue_many(jobs)
      all = jobs.each_with_index.map { |job, index| Producer.submission(job, index) }
      ids = Array.new(all.size)
      errors = Array.new(all.size)
      rounds(all).each do |queue, round|
        fates = submitted(queue, round.map { |index, line| [index, line] })
        fates.each { |index, fate| fate.is_a?(Exception) ? errors[index] = fate : ids[index] = fate }
      end
      raise BulkError.new(ids, errors) if errors.any?

      ids
    end

    # Opens a batch: submits its members, and when all of them have succeeded, the job that follows. Returns the ids of the members: `<name>.<number>`,
    # unless they have others. After an error, call it again with the same members in the same order: none is accepted twice.
    def batch(name, members, follow)
      last = Producer.submission(follow, 'follow')
      lines = members.each_with_index.map { |job, index| Producer.submission(job, index) }
      queue = last.queue || @queue
      other = lines.find { |job| (job.queue || queue) != queue }
      raise InvalidSubmission, 'a batch needs a member' if lines.empty?
      raise InvalidSubmission, "a batch has one queue, and this one has '#{queue}' and '#{other.queue}'" if other

      body = "{\"follow\":#{last.line},\"members\":[#{lines.map(&:line).join(',')}]}"
      ask(:put, "#{path(queue)}/batches/#{part(name)}", body: body, names: 'batch').body['ids']
    end

    # Looks a job up. Nil: it does not exist, or has left no record.
    def status(id, queue: @queue)
      found = ask(:get, "#{path(queue)}/jobs/#{part(id)}", allowed: 404)
      found.status == 404 ? nil : status_of(found.body)
    end

    # Returns the result of a job that is done, and nil if there is none yet.
    def result(id, queue: @queue)
      status(id, queue: queue)&.value
    end

    # Waits for the end of a job, in requests that the console holds until then.
    #
    # @raise [NotEnded] it has not ended within the timeout, in seconds, or is not known
    def wait(id, timeout: 60, queue: @queue)
      deadline = now + timeout
      loop do
        left = [[deadline - now, 0].max, LONGEST_WAIT].min
        found = ask(:get, "#{path(queue)}/jobs/#{part(id)}?wait=#{(left * 1000).ceil}ms", allowed: 404, extra: left)
        status = found.status == 404 ? nil : status_of(found.body)
        return status if status&.ended?
        raise NotEnded, "the job #{id} has not ended; its state is #{status&.state || 'not known'}" if now >= deadline

        # It may be about to be submitted, as one that follows a batch.
        sleep([LOOK_AGAIN, deadline - now].min.clamp(0, LOOK_AGAIN)) if status.nil?
      end
    end

    private

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def address(url)
      uri = URI(url.to_s)
      raise ArgumentError, "url must be the address of `streamfleet console`, such as http://127.0.0.1:9470, not #{url.inspect}" unless uri.is_a?(URI::HTTP) && uri.host
      raise ArgumentError, 'url must have no login, query or fragment: the token goes into `token:`' if uri.userinfo || uri.query || uri.fragment

      uri.path = uri.path.chomp('/')
      uri
    end

    def path(queue)
      "#{@url.path}/api/v1/queues/#{Submission.queue(queue || @queue)}"
    end

    # A name as a part of a path. Clients take a part of dots alone out of it.
    def part(name)
      text = URI.encode_www_form_component(name.to_s).gsub('+', '%20')
      text.match?(/\A\.{1,2}\z/) ? "#{text}%20" : text
    end

    # The jobs by request, each about one queue.
    def rounds(jobs)
      by_queue = jobs.each_with_index.group_by { |job, _| job.queue || @queue }
      by_queue.flat_map do |queue, some|
        size = 0
        lines = some.map { |job, index| [index, job.line] }
        lines.slice_when do |(_, line), _|
          size += line.bytesize + (ROUND_BYTES / ROUND_JOBS)
          full = size >= ROUND_BYTES
          size = 0 if full
          full
        end.map { |round| [queue, round] }
      end
    end

    # Submits the lines of one queue, and returns the id of each job by its index, or the error. An answer that broke off, and jobs of which Redis has
    # said nothing, are asked for again: the key and the ids keep them single.
    def submitted(queue, round)
      whole = lambda do |text|
        text.end_with?("\n") && JSON.parse(text.lines.last).key?('done') && !text.include?('"status":503')
      end
      text = ask(:post, "#{path(queue)}/jobs", body: round.map(&:last).join("\n"), form: 'application/x-ndjson', key: SecureRandom.uuid, whole: whole).text
      fates = text.lines.map { |line| JSON.parse(line) }.select { |fate| fate['line'] }
      fates.to_h do |fate|
        problem = fate['problem']
        [round[fate['line'] - 1].first, problem ? error_of(problem['status'], problem) : fate['id']]
      end
    rescue Refused, Unconfirmed, InvalidSubmission => e
      round.to_h { |index, _| [index, e] }
    end

    # Sends a request, again if that may help and cannot submit a job twice, and returns the answer.
    def ask(method, path, **request)
      sent = false
      (0..).each do |tries|
        found = tried(method, path, **request)
        return found if found.is_a?(Answer)

        sent ||= found.sent
        if found.final || tries >= @retries || (found.pause || 0) > @timeout
          raise found.error.is_a?(Refused) && sent && !found.final ? Unconfirmed.new(found.error.message) : found.error
        end

        sleep(found.pause || ([FIRST_PAUSE * (2**tries), LONGEST_PAUSE].min * rand(0.5..1.0)))
      end
    end

    # Sends a request once.
    def tried(method, path, body: nil, form: 'application/json', key: nil, allowed: nil, extra: 0, whole: nil, names: 'id')
      request = Net::HTTP.const_get(method.capitalize).new(path)
      request['Authorization'] = "Bearer #{(@token.respond_to?(:call) ? @token.call : @token).to_s.strip}"
      request['Accept'] = whole ? "#{form}, application/json" : 'application/json'
      request['Content-Type'] = form if body
      request['Idempotency-Key'] = key if key
      request.body = body
      response = connection(extra) { |http| http.request(request) }
      answer_of(response, allowed, whole, names)
    rescue *BROKEN => e
      disconnect
      refused = NOT_CONNECTED.any? { |kind| kind === e }
      error = (refused ? Refused : Unconfirmed).new("the console at #{@url} cannot be reached: #{e.message}")
      Failed.new(error, !refused, false, nil)
    end

    def answer_of(response, allowed, whole, names)
      status = response.code.to_i
      text = response.body.to_s.dup.force_encoding(Encoding::UTF_8)
      if status.between?(200, 299) || status == allowed
        found = read(status, text, whole, names)
        return found if found

        what = whole ? 'broke off, or Redis has not said what became of some jobs' : 'names no job: is it the address of `streamfleet console`?'
        return Failed.new(Unconfirmed.new("the answer of #{@url} #{what}"), true, false, nil)
      end
      problem = problem_of(text)
      # With a problem of the console, the job is accepted, and only its durability is not confirmed.
      final = !TEMPORARY.include?(status) || (status == 504 && !problem.nil?)
      pause = response['Retry-After'].to_f
      Failed.new(error_of(status, problem || { 'detail' => text[0, 200] }), status != 429, final, pause.positive? ? pause : nil)
    end

    def read(status, text, whole, names)
      return whole.call(text) ? Answer.new(status, text) : nil if whole

      body = JSON.parse(text)
      status == 404 || (body.is_a?(Hash) && body[names].is_a?(String)) ? Answer.new(status, text, body) : nil
    rescue JSON::ParserError
      nil
    end

    def problem_of(text)
      problem = JSON.parse(text)
      problem if problem.is_a?(Hash) && (problem['detail'] || problem['title'])
    rescue JSON::ParserError
      nil
    end

    # The error for a status, with the fields that are wrong and what to do.
    def error_of(status, problem)
      said = [problem['detail'], problem['title'], 'the console has said nothing else'].find { |text| !text.to_s.empty? }
      remedy = REMEDIES.key?(status) ? "; #{REMEDIES[status]}" : ''
      message = "#{said} (#{@url}: status #{status})#{remedy}"
      case status
      when 400, 413, 415, 422 then InvalidSubmission.new(message, fields: (problem['errors'] || []).map { |error| error['at'] })
      when 502, 503, 504 then Unconfirmed.new(message)
      else Refused.new(message)
      end
    end

    def status_of(body)
      progress = body['progress'] || {}
      Status.new(body['id'], state: body['state'], type: body['type'], created_ms: body['created_ms'], error: body['error'], progress: progress['percent'],
                             note: progress['message'], result: body['result'])
    end

    # A thread, and a process after a fork, has a connection of its own.
    def connection(extra)
      held = Thread.current.thread_variable_get(slot)
      held = nil unless held && held[0] == Process.pid && held[1].started?
      http = held ? held[1] : start
      http.read_timeout = @timeout + extra
      yield http
    end

    def start
      http = Net::HTTP.new(@url.host, @url.port)
      http.use_ssl = @url.scheme == 'https'
      http.open_timeout = @timeout
      http.write_timeout = @timeout
      http.max_retries = 0
      http.keep_alive_timeout = 30
      http.start
      Thread.current.thread_variable_set(slot, [Process.pid, http])
      http
    end

    def disconnect
      _, http = Thread.current.thread_variable_get(slot)
      Thread.current.thread_variable_set(slot, nil)
      http&.finish if http&.started?
    rescue IOError
      nil
    end

    def slot
      @slot ||= :"streamfleet_http_#{object_id}"
    end
  end
end
