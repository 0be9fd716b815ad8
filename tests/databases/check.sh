#!/usr/bin/env bash
# Tests the crate `streamfleet-sql` and the program on MariaDB, PostgreSQL and SQLite. Each test program starts servers of its own, and ends them.
# With --long, only what takes long: many kills of workers and servers. With --if-possible, a machine without these servers, or without the right to install them, is reported and counts as checked.
set -euo pipefail
cd "$(dirname "$0")/../.."

if_possible= long=
for option; do
  case "$option" in
    --if-possible) if_possible=1 ;;
    --long) long=1 ;;
    *) echo "unknown option: $option" >&2; exit 2 ;;
  esac
done

missing() {
  command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ] || echo mariadb-server
  ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null || echo postgresql
}

packages=$(missing)
if [ "$packages" ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    # Debian starts a server when it installs one. Nobody needs it.
    policy=/usr/sbin/policy-rc.d
    made=
    if [ ! -e "$policy" ]; then printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && made=1; fi
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $packages >/dev/null || true
    [ -z "$made" ] || rm -f "$policy"
  fi
fi
packages=$(missing)
if [ "$packages" ]; then
  echo "skip  databases: install $(echo $packages)"
  [ "$if_possible" ] || exit 1
  exit 0
fi
cargo=${CARGO:-cargo}
if [ "$long" ]; then
  # One at a time: each needs the whole machine.
  $cargo test --locked --all-features --test databases --package streamfleet-cli -- --nocapture --test-threads=1 long::
  exit
fi
$cargo test --locked --package streamfleet-sql --test databases
$cargo test --locked --all-features --test databases --package streamfleet-cli -- --skip long::
