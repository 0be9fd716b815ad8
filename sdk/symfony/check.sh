#!/usr/bin/env bash
# Tests the package for Symfony Messenger with the components of Symfony that the system has (Debian); installs them if they are missing and apt-get is there.
#
# STREAMFLEET_BIN is the program streamfleet. Without it, all tests are skipped, and say so. Arguments select tests by parts of their names.
set -euo pipefail
cd "$(dirname "$0")"
[ -z "${STREAMFLEET_BIN:-}" ] || STREAMFLEET_BIN=$(realpath "$STREAMFLEET_BIN")

packages=(php-cli php-redis composer redis-server)
for each in messenger redis-messenger framework-bundle mailer console yaml; do
  packages+=("php-symfony-$each")
done
../php/tests/packages.sh "${packages[@]}"

for file in src/*.php tests/*.php tests/app/*.php tests/app/*/*.php tests/app/console; do
  php -l "$file" >/dev/null
done
composer validate --quiet --strict --no-check-publish
[ -n "${STREAMFLEET_BIN:-}" ] || echo "skip all tests: STREAMFLEET_BIN is not set"

failed=0
for suite in symfony readme; do
  php -d error_reporting="E_ALL & ~E_DEPRECATED" -d zend.assertions=1 "tests/$suite.php" "$@" || failed=1
done
exit $failed
