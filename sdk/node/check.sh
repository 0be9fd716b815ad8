#!/usr/bin/env bash
# Runs every test of the Node package, on a private Redis. With STREAMFLEET_BIN=/path/to/streamfleet, also those with a real worker.
#
# It installs the package and the clients into a temporary folder, as the README's quick start does. If npm cannot, because there is no
# network, it uses the clients that Node finds by NODE_PATH or in /usr/share/nodejs, such as Debian's node-redis.
# Exit code 0: everything that could run passed. Lines that begin with "skip" name what could not.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

command -v node >/dev/null || { echo "node is not on the PATH: apt-get install nodejs" >&2; exit 1; }
[ -n "${STREAMFLEET_TEST_REDIS:-}" ] || command -v redis-server >/dev/null || command -v valkey-server >/dev/null || {
  echo "neither redis-server nor valkey-server is on the PATH: apt-get install redis-server" >&2
  exit 1
}
if [ -n "${STREAMFLEET_BIN:-}" ]; then
  STREAMFLEET_BIN=$(realpath "$STREAMFLEET_BIN")
  export STREAMFLEET_BIN
  [ -x "$STREAMFLEET_BIN" ] || { echo "STREAMFLEET_BIN is not a program: $STREAMFLEET_BIN" >&2; exit 1; }
fi

# The block of the README, and then what it does not need: the other client, and the compiler that checks the types.
install() {
  mkdir "$work/app"
  sed -n '/^<!-- run: shell install -->$/,/^```$/{/^<!--/d;/^```/d;p}' "$here/README.md" >"$work/install"
  cd "$work/app"
  STREAMFLEET_SOURCE=$(dirname "$(dirname "$here")") npm_config_fund=false npm_config_audit=false bash -euo pipefail "$work/install" &&
    npm install --no-fund --no-audit redis typescript @types/node
}

if command -v npm >/dev/null && (install) >"$work/log" 2>&1; then
  export NODE_PATH=$work/app/node_modules
  (cd "$work/app" && node -e "require('streamfleet')" && node --input-type=module -e "import { job } from 'streamfleet'")
  echo "ok   the package can be installed"
  cp "$here/test/types.ts" "$work/app/types.ts"
  (cd "$work/app" && node_modules/.bin/tsc --noEmit --strict --module nodenext --target es2022 --types node types.ts)
  echo "ok   the types"
else
  echo "skip the installation by npm, and the types: $(tail -n 1 "$work/log" 2>/dev/null || echo "npm is not on the PATH")"
  export NODE_PATH=${NODE_PATH:-/usr/share/nodejs}
fi
for client in ioredis redis; do
  node -e "require('$client')" 2>/dev/null || echo "skip the tests with $client: it is not installed"
done

cd "$here"
node --test test/*.test.js >"$work/tests" 2>&1 || { cat "$work/tests"; exit 1; }
grep -E '^(# |ℹ )(tests|pass|fail|skipped) ' "$work/tests" || true
[ -n "${STREAMFLEET_BIN:-}" ] || echo "skip the tests with the real program: set STREAMFLEET_BIN to its path"
