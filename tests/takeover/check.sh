#!/usr/bin/env bash
# usage: check.sh [JOBS [FAILED [SYSTEM…]]]
#
# Fills a queue of each system with waiting and failed jobs, by that system's own library where it can be installed, and drains it with
# `streamfleet import`, which is killed several times. Each job must be here exactly once. By default: 100000 waiting jobs, 10000 failed ones, and all systems.
#
# pip, npm and Debian's packages give the libraries: celery and rq, bullmq, and ruby-sidekiq, php-redis and php-illuminate-queue. A system whose library is
# missing is skipped, and named. STREAMFLEET_BIN is the program; by default, that of `cargo build`. Every server is private. SEED repeats a run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=$(realpath "${STREAMFLEET_BIN:-$here/../../target/debug/streamfleet}")
[ -x "$program" ] || { echo "no program $program: run cargo build, or set STREAMFLEET_BIN" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check redis celery packaging rq >"$work/pip.log" 2>&1 || {
  echo "pip cannot install redis, celery and rq: $(tail -n 1 "$work/pip.log")" >&2
  exit 1
}
if command -v npm >/dev/null; then
  (cd "$work" && echo '{}' >package.json && npm install --silent --no-audit --no-fund --ignore-scripts bullmq ioredis >npm.log 2>&1) ||
    echo "skip bullmq: $(tail -n 1 "$work/npm.log")"
fi
cp "$here"/fill.* "$work"
cd "$work"
exec "$work/venv/bin/python" "$here/check.py" "$program" "${1:-100000}" "${2:-10000}" "${@:3}"
