#!/usr/bin/env bash
# usage: api.sh [--if-possible]
#
# Checks the console's API with the real program: its description is valid OpenAPI 3.1 and passes the linter, and a client that is generated
# from it submits jobs, waits, finds, changes, cancels and replays them.
#
# tools.sh gets the tools: openapi-spec-validator and openapi-python-client from PyPI, Spectral from npm. STREAMFLEET_BIN is the program; by
# default, the newest build. Exit code 0: every check passed, or with --if-possible, a tool cannot be installed.
set -euo pipefail
# shellcheck source=tools.sh
. "$(dirname "${BASH_SOURCE[0]}")/tools.sh"
case ${1:-} in
  '') ;;
  --if-possible) is_optional=yes ;;
  *) sed -n 2p "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
find_program
find_server
python_set "$console/api/requirements.txt"
npm_package @stoplight/spectral-cli@6.16.3
cd "$console"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$console:$root/grafana python3 -m api "$program" "$server" "$node_modules/.bin/spectral"
