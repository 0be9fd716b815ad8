#!/usr/bin/env bash
# Tests the package for Laravel with the components of Laravel that the system has (Debian); installs them if they are missing and apt-get is there.
#
# STREAMFLEET_BIN is the program streamfleet. Without it, all tests are skipped, and say so. Arguments select tests by parts of their names.
set -euo pipefail
cd "$(dirname "$0")"
[ -z "${STREAMFLEET_BIN:-}" ] || STREAMFLEET_BIN=$(realpath "$STREAMFLEET_BIN")

packages=(php-cli php-redis php-sqlite3 composer redis-server)
for each in queue redis database console encryption cache mail log config view filesystem; do
  packages+=("php-illuminate-$each")
done
../php/tests/packages.sh "${packages[@]}"

for file in src/*.php tests/*.php tests/app/*.php tests/app/*/*.php tests/app/artisan; do
  php -l "$file" >/dev/null
done
composer validate --quiet --strict --no-check-publish
[ -n "${STREAMFLEET_BIN:-}" ] || echo "skip all tests: STREAMFLEET_BIN is not set"

failed=0
for suite in laravel readme; do
  php -d error_reporting="E_ALL & ~E_DEPRECATED" -d zend.assertions=1 "tests/$suite.php" "$@" || failed=1
done
exit $failed
