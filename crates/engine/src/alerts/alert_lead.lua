-- alert_lead: take or renew the lease of the process that looks for incidents and sends messages about them.
-- lease_ms: 0 to give up the lease.
-- returns {1} this process has it, {0} another process has it, or none
local sender = KEYS[1]
local own, lease_ms = ARGV[1], tonumber(ARGV[2])
return { take_lease(sender, own, lease_ms) and 1 or 0 }
