#!/usr/bin/env bash
# Tests the PHP package with PHP, phpredis, Predis, the drivers of PDO, Composer and Redis of the system; installs them if they are missing.
# Tests that need MariaDB or PostgreSQL start a server of their own if it is installed (Debian: mariadb-server, postgresql), and say so if not.
#
# STREAMFLEET_BIN is the program streamfleet. Without it, the tests that need it are skipped, and say so. STREAMFLEET_TEST_REDIS selects
# another server, STREAMFLEET_TEST_PREDIS another Predis (its autoloader). Arguments select tests by parts of their names.
set -euo pipefail
cd "$(dirname "$0")"
[ -z "${STREAMFLEET_BIN:-}" ] || STREAMFLEET_BIN=$(realpath "$STREAMFLEET_BIN")

# needed PACKAGE, then a command that fails if it is missing
missing=()
needed() {
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}
has_extension() { php -r 'exit(extension_loaded($argv[1]) ? 0 : 1);' "$1"; }

needed php-cli command -v php
needed php-redis has_extension redis
needed php-sqlite3 has_extension pdo_sqlite
needed php-mysql has_extension pdo_mysql
needed php-pgsql has_extension pdo_pgsql
needed php-curl has_extension curl
needed php-predis test -e "${STREAMFLEET_TEST_PREDIS:-/usr/share/php/Predis/autoload.php}"
needed composer command -v composer
[ -n "${STREAMFLEET_TEST_REDIS:-}" ] || command -v redis-server >/dev/null || missing+=(redis-server)

if [ ${#missing[@]} -gt 0 ]; then
  if ! command -v apt-get >/dev/null; then
    echo "the tests of sdk/php need ${missing[*]}; install them with your system's package manager"
    exit 1
  fi
  sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  command -v "${sudo:-true}" >/dev/null || {
    echo "the tests of sdk/php need ${missing[*]}: as root, run apt-get install ${missing[*]}"
    exit 1
  }
  echo "installing ${missing[*]} from the system's packages"
  $sudo apt-get update -qq
  for package in "${missing[@]}"; do
    RUNLEVEL=1 $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null || {
      # Without Predis, its tests say that they are skipped.
      [ "$package" = php-predis ] || {
        echo "$package could not be installed; install it by hand and try again"
        exit 1
      }
      echo "php-predis could not be installed"
    }
  done
fi

for file in src/*.php src/*/*.php tests/*.php autoload.php; do
  php -l "$file" >/dev/null
done
composer validate --quiet --strict --no-check-publish
[ -n "${STREAMFLEET_BIN:-}" ] || echo "skip the tests with the real program: STREAMFLEET_BIN is not set"

failed=0
for suite in unit codecs worker testing drivers producer sql fleet http readme; do
  php -d error_reporting=-1 -d zend.assertions=1 "tests/$suite.php" "$@" || failed=1
done
exit $failed
