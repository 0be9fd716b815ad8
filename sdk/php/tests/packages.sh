#!/usr/bin/env bash
# Installs those of the named packages of Debian that are missing, or says which.
set -euo pipefail
missing=()
for package in "$@"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0
if ! command -v apt-get >/dev/null; then
  echo "the tests need ${missing[*]}; install them with your system's package manager"
  exit 1
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
echo "installing ${missing[*]} from the system's packages"
$sudo apt-get update -qq
RUNLEVEL=1 $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
