#!/usr/bin/env bash
# Runs every test of the Node package, on private Redis servers. With STREAMFLEET_BIN=/path/to/streamfleet, also those with a real worker.
#
# Tests that need MariaDB or PostgreSQL start a server of their own if it is installed (Debian: mariadb-server, postgresql), and are skipped if not.
# It installs the clients, OpenTelemetry and TypeScript with npm into a temporary folder. If npm cannot, it fails, unless STREAMFLEET_SKIP_NPM=1: then
# only the tests that need neither run. NODE selects the interpreter. Lines that begin with "skip" name what did not run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The block of the README with this name.
block() {
  sed -n "/^<!-- run: shell $1 -->\$/,/^\`\`\`\$/{/^<!--/d;/^\`\`\`/d;p}" "$here/README.md"
}

if ! command -v "${NODE:-node}" >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  block apt >"$work/apt"
  DEBIAN_FRONTEND=noninteractive bash -euo pipefail "$work/apt" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
fi
node=$(command -v "${NODE:-node}") || {
  echo "node is not on the PATH: apt-get install nodejs npm" >&2
  exit 1
}
node=$(realpath "$node")
echo "     Node $("$node" --version)"
command -v "${STREAMFLEET_TEST_REDIS:-redis-server}" >/dev/null || {
  echo "redis-server is not on the PATH: apt-get install redis-server" >&2
  exit 1
}
if [ -n "${STREAMFLEET_BIN:-}" ]; then
  STREAMFLEET_BIN=$(realpath "$STREAMFLEET_BIN")
  export STREAMFLEET_BIN
  [ -x "$STREAMFLEET_BIN" ] || { echo "STREAMFLEET_BIN is not a program: $STREAMFLEET_BIN" >&2; exit 1; }
fi

# FOLDER PACKAGE...: installs packages into a folder of their own.
install() {
  local folder=$1
  shift
  mkdir -p "$folder"
  (cd "$folder" && npm init --yes && npm install --no-audit --no-fund --ignore-scripts "$@")
}

# What the tests and the README's quick start need; the block of the README installs this package beside a client.
# npm waits more than it computes, so all folders are filled at the same time.
install_all() {
  command -v npm || return 1
  local version each installing=()
  for version in 5 6; do install "$work/clients/ioredis-$version" "ioredis@$version" & installing+=($!); done
  for version in 4 5 6; do install "$work/clients/redis-$version" "redis@$version" & installing+=($!); done
  install "$work/clients/sql" mysql2@3 pg@8 & installing+=($!)
  install "$work/clients/otel" @opentelemetry/{api@1,core@2,context-async-hooks@2,sdk-trace-base@2} & installing+=($!)
  "$node" -e 'require("node:sqlite")' || { install "$work/sqlite" "node-linux-$("$node" -p process.arch)@22" & installing+=($!); }
  install "$work/types" typescript@5 @types/node@20 & installing+=($!)
  quick_start & installing+=($!)
  for each in "${installing[@]}"; do wait "$each" || return 1; done
}

quick_start() {
  mkdir -p "$work/quick" "$work/streamfleet/sdk"
  ln -s "$here" "$work/streamfleet/sdk/node"
  block install >"$work/install"
  (cd "$work/quick" && bash -euo pipefail "$work/install") || return 1
  (cd "$work/quick" && "$node" -e 'require("redis"); new (require("streamfleet").Worker)()')
}

unset STREAMFLEET_NODE_CLIENTS STREAMFLEET_NODE_TSC
if [ "${STREAMFLEET_SKIP_NPM:-}" = 1 ]; then
  echo "skip the tests with clients, types and the real program: STREAMFLEET_SKIP_NPM is set"
elif install_all >"$work/log" 2>&1; then
  export STREAMFLEET_NODE_CLIENTS="$work/clients" STREAMFLEET_NODE_TSC="$work/types/node_modules/.bin/tsc"
  echo "ok   the package and its clients can be installed"
else
  cat "$work/log" >&2
  echo "npm cannot install ioredis, redis and typescript: apt-get install npm, or set STREAMFLEET_SKIP_NPM=1 to test without them" >&2
  exit 1
fi

# What would be published is complete.
if command -v npm >/dev/null; then
  (cd "$here" && npm pack --dry-run --json 2>/dev/null) >"$work/pack"
  "$node" -e '
    const [{ files }] = JSON.parse(require("fs").readFileSync(0, "utf8"));
    const have = files.map(({ path }) => path).sort().join(" ");
    const want = "LICENSE LICENSE-APACHE LICENSE-MIT README.md claims.js codecs.js fakes.js http.js index.d.mts index.d.ts index.js index.mjs messagepack.js package.json sql.js trace.js";
    if (have !== want) throw new Error(`the package has ${have}, but should have ${want}`);
  ' <"$work/pack"
  echo "ok   the package has all its files, and no others"
fi

cd "$here"
"$node" --test test/*.test.js >"$work/tests" 2>&1 || { cat "$work/tests"; exit 1; }
grep -E '^(# |ℹ )(tests|pass|fail|skipped) ' "$work/tests"
# Node before 22 has no SQLite.
for newer in "$work"/sqlite/node_modules/node-linux-*/bin/node; do
  [ -x "$newer" ] || continue
  "$newer" --test --test-name-pattern='node:sqlite|with a database' test/sql.test.js test/readme.test.js >"$work/tests" 2>&1 || { cat "$work/tests"; exit 1; }
  echo "ok   SQLite, with Node $("$newer" --version)"
done
[ -n "${STREAMFLEET_BIN:-}" ] || echo "skip the tests with the real program: set STREAMFLEET_BIN to its path"
