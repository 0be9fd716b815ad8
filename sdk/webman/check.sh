#!/usr/bin/env bash
# Tests the package for webman with stand-ins for webman and Workerman (tests/contract), because neither can be installed from Debian's packages.
#
# STREAMFLEET_BIN is the program streamfleet. Without it, most tests are skipped, and say so. Arguments select tests by parts of their names.
set -euo pipefail
cd "$(dirname "$0")"
[ -z "${STREAMFLEET_BIN:-}" ] || STREAMFLEET_BIN=$(realpath "$STREAMFLEET_BIN")

../php/tests/packages.sh php-cli php-redis composer redis-server

while read -r file; do
  php -l "$file" >/dev/null
done < <(find . -name '*.php')
composer validate --quiet --strict --no-check-publish
echo "note: webman and Workerman are stand-ins, written from their documentation (sdk/webman/tests/contract)"
[ -n "${STREAMFLEET_BIN:-}" ] || echo "skip the tests with the real program: STREAMFLEET_BIN is not set"

failed=0
for suite in unit webman readme; do
  php -d error_reporting="E_ALL & ~E_DEPRECATED" -d zend.assertions=1 "tests/$suite.php" "$@" || failed=1
done
exit $failed
