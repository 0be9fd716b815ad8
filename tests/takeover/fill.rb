# Fills a queue of Sidekiq. Prints how many dead jobs it has.
require 'json'
require 'sidekiq'
require 'sidekiq/api'

url, jobs, failed = ARGV[1], ARGV[2].to_i, ARGV[3].to_i
Sidekiq.options[:dead_max_jobs] = 2 * failed + 1
Sidekiq.configure_client { |config| config.redis = { url: url } }
(0...jobs).each_slice(1000) do |ns|
  Sidekiq::Client.push_bulk('class' => 'MailWorker', 'queue' => 'mail', 'args' => ns.map { |n| [n] })
end
dead = Sidekiq::DeadSet.new
failed.times do |n|
  job = { class: 'MailWorker', queue: 'mail', args: [n], jid: "dead#{n}", retry_count: 24, failed_at: Time.now.to_f,
          error_class: 'Net::ReadTimeout', error_message: 'no route' }
  dead.kill(JSON.generate(job), notify_failure: false)
end
puts failed
