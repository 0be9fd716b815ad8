#!/usr/bin/env bash
# usage: compare.sh [JOBS [ROUNDS [CONCURRENCY]]]
#
# Jobs per second of streamfleet, BullMQ and raw Redis commands on this machine, in turns, as a Markdown table: the one in the README.
# By default: 200000 jobs, 3 rounds, 100 handlers at a time. Stop everything else on the machine first.
#
# npm installs the newest BullMQ, or STREAMFLEET_BULLMQ=VERSION, into a temporary folder. STREAMFLEET_BIN is the program; by default, that of
# `cargo build --release`. STREAMFLEET_TEST_REDIS is the server; by default, redis-server or valkey-server from the PATH. Every server is private.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# Prints why nothing can be measured, and ends.
stop() {
  printf '%s\n' "$1" >&2
  exit 1
}

program=$(realpath "${STREAMFLEET_BIN:-$here/../../target/release/streamfleet}")
[ -x "$program" ] || stop "no program $program: run cargo build --release --bin streamfleet, or set STREAMFLEET_BIN"
server=$(command -v "${STREAMFLEET_TEST_REDIS:-redis-server}" || command -v valkey-server) ||
  stop "neither redis-server nor valkey-server is on the PATH: apt-get install redis-server"
command -v node >/dev/null && command -v npm >/dev/null || stop "node and npm are not on the PATH: apt-get install nodejs npm"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
echo '{}' >package.json
npm install --no-audit --no-fund --ignore-scripts "bullmq@${STREAMFLEET_BULLMQ:-latest}" ioredis >npm.log 2>&1 || stop "npm cannot install BullMQ: $(tail -n 3 npm.log)"
cp "$here/compare.mjs" .
node compare.mjs "$program" "$server" "${1:-200000}" "${2:-3}" "${3:-100}"
