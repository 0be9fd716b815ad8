-- lease: take or renew the lease of a process that does what one process at a time does.
-- lease_ms: 0 to give up the lease.
-- returns {1} this process has it, {0} another process has it, or none
local lease = KEYS[1]
local own, lease_ms = ARGV[1], tonumber(ARGV[2])
return { take_lease(lease, own, lease_ms) and 1 or 0 }
