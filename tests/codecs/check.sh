#!/usr/bin/env bash
# usage: check.sh
#
# Runs check.py: payloads that one language encodes and another decodes, with a private Redis and the real program. STREAMFLEET_BIN is the program,
# STREAMFLEET_CODECS the example `codecs` of the Rust library; without it, Rust is skipped. Needs PHP with redis, Ruby with the gem redis, Node with
# npm, and Python; it installs clients for the last two into a temporary folder.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for variable in STREAMFLEET_BIN STREAMFLEET_CODECS; do
  [ -z "${!variable:-}" ] || export "$variable=$(realpath "${!variable}")"
done
: "${STREAMFLEET_BIN:?is the path of the program}"
for program in php node npm ruby python3 "${STREAMFLEET_TEST_REDIS:-redis-server}"; do
  command -v "$program" >/dev/null || { echo "$program is missing" >&2; exit 1; }
done
php -r 'exit(extension_loaded("redis") ? 0 : 1);' || { echo "PHP has no extension redis: apt-get install php-redis" >&2; exit 1; }
ruby -e 'require "redis"' || { echo "Ruby has no gem redis: apt-get install ruby-redis" >&2; exit 1; }
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet redis cryptography
(cd "$work" && npm init --yes >/dev/null && npm install --silent --no-audit --no-fund --ignore-scripts redis@5)
STREAMFLEET_NODE_CLIENT="$work/node_modules/redis" "$work/venv/bin/python" "$here/check.py"
