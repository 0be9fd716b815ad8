#!/usr/bin/env bash
# usage: check.sh [--bench]
#
# Runs every test of the package for NestJS. With STREAMFLEET_BIN=/path/to/streamfleet, also those with a real worker: the application of test/app
# on BullMQ and on streamfleet, and the quick start. --bench also measures both; STREAMFLEET_BIN should be a release build then.
#
# It installs NestJS, BullMQ and TypeScript with npm into a temporary folder. If npm cannot, it fails, unless STREAMFLEET_SKIP_NPM=1. Lines that
# begin with "skip" name what did not run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

node=$(command -v "${NODE:-node}") || {
  echo "node is not on the PATH: apt-get install nodejs npm" >&2
  exit 1
}
if ! "$node" -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)'; then
  echo "skip the package for NestJS: it needs Node 20.19, and this is $("$node" --version)"
  exit 0
fi
if [ "${STREAMFLEET_SKIP_NPM:-}" = 1 ]; then
  echo "skip the package for NestJS: STREAMFLEET_SKIP_NPM is set"
  exit 0
fi
if [ -n "${STREAMFLEET_BIN:-}" ]; then
  STREAMFLEET_BIN=$(realpath "$STREAMFLEET_BIN")
  export STREAMFLEET_BIN
fi

# FOLDER VERSION: NestJS of this version, with both drivers.
install() {
  mkdir -p "$1"
  (cd "$1" && npm init --yes && npm install --no-audit --no-fund --ignore-scripts --install-links \
    "@nestjs/common@$2" "@nestjs/core@$2" "@nestjs/bullmq@$2" bullmq@5 ioredis@5 reflect-metadata rxjs typescript@5 @types/node@20 \
    "$here/../node" "$here")
}
# npm waits more than it computes. The quick start gets from npm's cache what is there already.
export npm_config_audit=false npm_config_fund=false npm_config_prefer_offline=true
installing=()
for version in 11 12; do
  install "$work/$version" "$version" >"$work/log$version" 2>&1 &
  installing+=($!)
done
for each in "${installing[@]}"; do
  wait "$each" || {
    cat "$work"/log* >&2
    echo "npm cannot install NestJS and BullMQ: apt-get install npm, or set STREAMFLEET_SKIP_NPM=1 to skip these tests" >&2
    exit 1
  }
done
echo "ok   the package can be installed beside NestJS 11 and 12"

(cd "$here" && npm pack --dry-run --json 2>/dev/null) >"$work/pack"
"$node" -e '
  const [{ files }] = JSON.parse(require("fs").readFileSync(0, "utf8"));
  const have = files.map(({ path }) => path).sort().join(" ");
  const want = "LICENSE LICENSE-APACHE LICENSE-MIT README.md bin.js index.d.ts index.js module.js package.json pool.js queue.js";
  if (have !== want) throw new Error(`the package has ${have}, but should have ${want}`);
' <"$work/pack"
echo "ok   the package has all its files, and no others"

cd "$here"
STREAMFLEET_NEST_MODULES="$work/11" "$node" --test test/*.test.js >"$work/tests" 2>&1 || { cat "$work/tests"; exit 1; }
grep -E '^(# |ℹ )(tests|pass|fail|skipped) ' "$work/tests"
STREAMFLEET_NEST_MODULES="$work/12" "$node" --test test/queue.test.js test/pool.test.js >"$work/tests" 2>&1 || { cat "$work/tests"; exit 1; }
echo "ok   the tests without a worker, with NestJS 12"
[ -n "${STREAMFLEET_BIN:-}" ] || echo "skip the tests with the real program: set STREAMFLEET_BIN to its path"
if [ "${1:-}" = --bench ]; then
  for processes in 1 2; do STREAMFLEET_NEST_MODULES="$work/11" "$node" test/bench.js 20000 "$processes"; done
fi
