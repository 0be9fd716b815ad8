# shellcheck shell=bash
# Sourced by the checks of the console: gets their tools, and finds the program and the server.
#
# The tools are in a folder of their own, $STREAMFLEET_CONSOLE_TOOLS or ~/.cache/streamfleet-console, because they need other versions of
# some packages than the checks of deploy/. Each set of packages has a folder that is named after its contents, so a new version never meets
# an old one. If something cannot be installed, the check fails, or with --if-possible it prints a line "skip …" and passes.
set -euo pipefail
# shellcheck disable=SC2034 # the callers set it by their options
is_optional=
console=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$console/../.." && pwd)
STREAMFLEET_DEPLOY_TOOLS=${STREAMFLEET_CONSOLE_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/streamfleet-console}
# shellcheck source=../../deploy/tools.sh
. "$root/deploy/tools.sh"

# Prints why the check cannot run, and ends it.
stop() {
  printf 'FAIL  %s\n' "$1"
  [ ! -s "$work/said" ] || quote
  exit 1
}

# missing WHAT: a tool cannot be installed, so that the check cannot run.
missing() {
  [ -n "$is_optional" ] || stop "$1"
  skip "$1"
  exit 0
}

# python_set FILE: puts the packages that FILE lists into a venv, whose programs are then first on the PATH.
python_set() {
  local folder
  folder=$tools/python-$(sha256sum <"$1" | cut -c1-16)
  command -v python3 >/dev/null || from_system python3 python3-venv
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || missing "python3 must be Python 3.11 or later"
  # Debian has the modules that make a venv in a package of their own.
  python3 -c 'import ensurepip, venv' 2>"$work/said" || from_system python3-venv
  [ -e "$folder/ready" ] || alone make_venv "$folder" "$1" || missing "the Python packages of $1 cannot be installed"
  PATH=$folder/bin:$PATH
  hash -r
}

make_venv() {
  rm -rf "$1" && python3 -m venv "$1" && "$1/bin/pip" install --quiet --disable-pip-version-check --requirement "$2" && touch "$1/ready"
}

# npm_package NAME@VERSION: puts the package and what it needs into a folder, whose path it sets as $node_modules.
npm_package() {
  local folder=$tools/npm/${1//\//+}
  if [ ! -e "$folder/ready" ]; then
    command -v npm >/dev/null || from_system nodejs npm
    alone make_package "$folder" "$1" || missing "npm cannot install $1"
  fi
  # shellcheck disable=SC2034 # the callers use it
  node_modules=$folder/node_modules
}

make_package() {
  rm -rf "$1" && mkdir -p "$1" && (cd "$1" && echo "{}" >package.json && npm install --no-audit --no-fund --ignore-scripts "$2") && touch "$1/ready"
}

# from_system PACKAGE…: installs packages of the system.
from_system() {
  local sudo=
  command -v apt-get >/dev/null || missing "this check needs $*; install them with your system's package manager"
  [ "$(id -u)" = 0 ] || sudo=sudo
  command -v "${sudo:-true}" >/dev/null || missing "this check needs $*: as root, run apt-get install $*"
  echo "installing $* from the system's packages"
  { $sudo apt-get update -qq && RUNLEVEL=1 $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } \
    >"$work/said" 2>&1 || missing "$* could not be installed; install them by hand and try again"
}

# Sets $program to the program under test: $STREAMFLEET_BIN, or the newest build.
find_program() {
  local each
  program=${STREAMFLEET_BIN:-}
  if [ -z "$program" ]; then
    for each in "${CARGO_TARGET_DIR:-$root/target}"/{debug,release}/streamfleet; do
      if [ -x "$each" ] && { [ -z "$program" ] || [ "$each" -nt "$program" ]; }; then program=$each; fi
    done
  fi
  [ -x "$program" ] || stop "no program; build it, or set STREAMFLEET_BIN to its path"
  program=$(realpath "$program")
}

# Sets $server to the Redis server that the tests use.
find_server() {
  server=$(command -v "${STREAMFLEET_TEST_REDIS:-redis-server}" || command -v valkey-server) ||
    stop "neither redis-server nor valkey-server is on the PATH: apt-get install redis-server redis-tools"
  [ -x "${server/%-server/-cli}" ] || stop "there is no ${server/%-server/-cli}: apt-get install redis-tools"
}
