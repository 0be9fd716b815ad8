#!/usr/bin/env bash
# usage: check.sh [--if-possible]
#
# Checks the console in the browser: installs what package-lock.json names into node_modules, checks the types and that they are those of
# openapi.json, runs the unit tests, builds it, and compares the result with the committed files and with the budget of sizes. Needs Node 20.19
# or later. Exit code 0: every check passed, or with --if-possible, Node or its packages are not to be had.
set -euo pipefail
cd "$(dirname "$0")"
optional=${1:-}
missing() {
  echo "console: not checked: $1" >&2
  [ "$optional" = --if-possible ] && exit 0
  exit 1
}
node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null || missing 'needs Node 20.19 or later'
npm ci --silent || missing 'npm cannot install the packages'
npm run --silent check
npm run --silent test
kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT
cp -r dist src/api/schema.d.ts "$kept"
npm run --silent types >/dev/null
diff -q "$kept/schema.d.ts" src/api/schema.d.ts || { echo 'src/api/schema.d.ts is not of openapi.json: run `npm run types` in console, and commit it' >&2; exit 1; }
npm run --silent build -- --logLevel warn
diff -rq "$kept/dist" dist || { echo 'console/dist is not what the sources build: run `npm run build` in console, and commit it' >&2; exit 1; }
npm run --silent sizes
