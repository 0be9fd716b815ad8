# shellcheck shell=bash
# Sourced by check.sh: checks the files for service managers.

# patience FILE KEY [SECONDS [SERVICE]]: checks that a supervisor gives its process enough time to stop. By default it is a worker, which drains
# (60 s) and ends (15 s). A service of a compose file is named.
patience() {
  local file=$1 key=$2 least=${3:-75} service=${4:-} given
  given=$(sed -n "${service:+/^  $service:\$/,/^\$/}s/^ *${key}[:=] *\([0-9]*\)s*$/\1/p" "$file")
  if [ "${given:-0}" -ge "$least" ]; then right "$file:${service:+ $service:} $key is $given s"; else
    fail "$file:${service:+ $service:} $key is '$given', but must be $least s or more"
  fi
}

units() {
  patience "systemd/streamfleet@.service" TimeoutStopSec
  patience "systemd/streamfleet-console@.service" TimeoutStopSec 10
  if ! command -v systemd-analyze >/dev/null; then
    skip "systemd: systemd-analyze is not available on this machine"
    return
  fi
  local each
  for each in streamfleet streamfleet-console; do unit "$each"; done
  # Of the keys of a unit and those of a drop-in, systemd takes the same as if the latter stood below the former.
  local copy="$work/other-user@check.service"
  { sed -e "s#/usr/bin/streamfleet#$(command -v true)#" -e '/^\[Install\]/,$d' systemd/streamfleet@.service; cat systemd/other-user.conf; } >"$copy"
  expect "systemd: other-user.conf: verify" said_nothing systemd-analyze verify "$copy"
}

unit() {
  # The program is not installed here, so another one takes its place.
  local copy="$work/$1@check.service"
  sed "s#/usr/bin/streamfleet#$(command -v true)#" "systemd/$1@.service" >"$copy"
  expect "systemd: $1: verify" said_nothing systemd-analyze verify "$copy"
  if ! systemd-analyze --help | grep -q -- --offline; then
    skip "systemd: this version of systemd-analyze cannot check a unit's hardening offline"
    return
  fi
  expect "systemd: $1: exposure of at most 2.0" systemd-analyze security --no-pager --offline=true --threshold=20 "$copy"
  sed -i.before -e '/^Protect/d' -e '/^Private/d' -e '/^SystemCall/d' "$copy"
  if systemd-analyze security --no-pager --offline=true --threshold=20 "$copy" >"$work/said" 2>&1; then
    fail "accepted: $1, not hardened"
  else
    right "refused: $1, not hardened"
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
