#!/usr/bin/env bash
# usage: check.sh [--bench]
#
# Runs every test of the gem, on private Redis servers. With STREAMFLEET_BIN=/path/to/streamfleet, also those with a real worker: the quick start, and
# an application of ActiveJob on Sidekiq and on streamfleet. --bench also measures both; STREAMFLEET_BIN should be a release build then.
#
# As root on Debian, it installs Ruby, ActiveJob and Sidekiq if they are missing. RUBY selects the interpreter. Lines that begin with "skip" name what did
# not run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ruby=${RUBY:-ruby}
needs() {
  "$ruby" -W0 -e 'require "redis"; require "active_job"; require "sidekiq"; require "minitest"' >/dev/null 2>&1
}

if ! needs && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    ruby ruby-redis ruby-activejob ruby-sidekiq ruby-minitest ruby-connection-pool redis-server; } >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
fi
needs || {
  echo "Ruby with redis, activejob, sidekiq and minitest is missing: apt-get install ruby ruby-redis ruby-activejob ruby-sidekiq ruby-minitest" >&2
  exit 1
}
echo "     $("$ruby" --version)"
command -v "${STREAMFLEET_TEST_REDIS:-redis-server}" >/dev/null || {
  echo "redis-server is not on the PATH: apt-get install redis-server" >&2
  exit 1
}
if [ -n "${STREAMFLEET_BIN:-}" ]; then
  STREAMFLEET_BIN=$(realpath "$STREAMFLEET_BIN")
  export STREAMFLEET_BIN
fi

cd "$here"
# What would be published is complete.
"$ruby" -S gem build --quiet --output "$work/streamfleet.gem" streamfleet.gemspec >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
have=$(tar -xOf "$work/streamfleet.gem" data.tar.gz | tar -tz | sort | tr '\n' ' ')
want=$(find lib exe LICENSE* README.md -type f | sort | tr '\n' ' ')
[ "$have" = "$want" ] || { echo "the gem has $have, but should have $want" >&2; exit 1; }
echo "ok   the gem has all its files, and no others"

for test in test/*_test.rb; do
  "$ruby" -W0 -Ilib "$test" >"$work/tests" 2>&1 || { cat "$work/tests"; exit 1; }
  echo "ok   $(basename "$test"): $(grep -E '^[0-9]+ runs' "$work/tests")"
done
[ -n "${STREAMFLEET_BIN:-}" ] || echo "skip the tests with the real program: set STREAMFLEET_BIN to its path"
if [ "${1:-}" = --bench ]; then
  for processes in 1 2; do "$ruby" -W0 -Ilib test/bench.rb 10000 "$processes"; done
fi
