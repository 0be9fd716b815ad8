# shellcheck shell=bash
# Sourced by check.sh: checks the files for service managers.

# Checks that the supervisor of a worker gives it enough time to drain (60 s) and to end (15 s).
patience() {
  local file=$1 key=$2 given
  given=$(sed -n "s/^ *${key}[:=] *\([0-9]*\)s*$/\1/p" "$file")
  if [ "${given:-0}" -ge 75 ]; then right "$file: $key is $given s"; else fail "$file: $key is '$given', but must be 75 s or more"; fi
}

unit() {
  patience "systemd/streamfleet@.service" TimeoutStopSec
  if ! command -v systemd-analyze >/dev/null; then
    skip "systemd: systemd-analyze is not available on this machine"
    return
  fi
  # The program is not installed here, so another one takes its place.
  local copy="$work/streamfleet@check.service"
  sed "s#/usr/bin/streamfleet#$(command -v true)#" 'systemd/streamfleet@.service' >"$copy"
  expect "systemd: verify" said_nothing systemd-analyze verify "$copy"
  if ! systemd-analyze --help | grep -q -- --offline; then
    skip "systemd: this version of systemd-analyze cannot check a unit's hardening offline"
    return
  fi
  expect "systemd: exposure of at most 2.0" systemd-analyze security --no-pager --offline=true --threshold=20 "$copy"
  sed -i.before -e '/^Protect/d' -e '/^Private/d' -e '/^SystemCall/d' "$copy"
  if systemd-analyze security --no-pager --offline=true --threshold=20 "$copy" >"$work/said" 2>&1; then
    fail "accepted: a unit that is not hardened"
  else
    right "refused: a unit that is not hardened"
  fi
}

# Succeeds if the command succeeds and prints nothing.
said_nothing() { "$@" 2>&1 | tee "$work/words" && [ ! -s "$work/words" ]; }

# Checks how Supervisor itself parses the file. The user need not exist on this machine.
supervisor() {
  patience supervisor/streamfleet.conf stopwaitsecs
  if ! tool_python supervisor==4.3.0 supervisord; then
    skip "supervisor: not available on this machine"
    return
  fi
  { printf '[supervisord]\nlogfile=%s/log\n' "$work"; sed '/^user=/d' supervisor/streamfleet.conf; } |
    sed "s#/var/log/streamfleet#$work#" >"$work/supervisor.conf"
  expect "supervisor: two processes, each with its own port" python3 - "$work/supervisor.conf" <<'PYTHON'
import sys
from supervisor.options import ServerOptions

options = ServerOptions()
options.realize(args=["-c", sys.argv[1]])
(group,) = options.process_group_configs
ports = {each.environment["STREAMFLEET__TELEMETRY__LISTEN"] for each in group.process_configs}
assert ports == {"127.0.0.1:9464", "127.0.0.1:9465"}, ports
PYTHON
}
