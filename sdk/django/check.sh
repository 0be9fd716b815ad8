#!/usr/bin/env bash
# Runs every test of the package for Django, on a private Redis. With STREAMFLEET_BIN=/path/to/streamfleet, also those with a real worker.
#
# It installs the package with the newest Django for this Python into a new environment in a temporary folder, and django-tasks-db, whose backend
# the application of the tests is run on first. With Python 3.12 or later, it also runs the tests with Django 5.2 and django-tasks.
# PYTHON selects the interpreter; otherwise it is the first of python3.13, python3.12 and python3. Exit code 0: everything that could run passed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

[ -n "${STREAMFLEET_TEST_REDIS:-}" ] || command -v redis-server >/dev/null || command -v valkey-server >/dev/null || {
  echo "neither redis-server nor valkey-server is on the PATH: apt-get install redis-server" >&2
  exit 1
}
if [ -n "${STREAMFLEET_BIN:-}" ]; then
  STREAMFLEET_BIN=$(realpath "$STREAMFLEET_BIN")
  export STREAMFLEET_BIN
fi
for python in ${PYTHON:-python3.13 python3.12 python3}; do
  ! "$python" -c 'import venv' 2>/dev/null || break
done
mkdir -p "$work/streamfleet"
cp -R "$here" "$here/../python" "$work/streamfleet"
find "$work/streamfleet" -name __pycache__ -prune -exec rm -rf {} +
(cd "$work/streamfleet" && find . | sort >"$work/before")

# checked FOLDER PACKAGE…: the tests with these packages.
checked() {
  local folder=$1
  shift
  "$python" -m venv "$folder"
  if ! PIP_DISABLE_PIP_VERSION_CHECK=1 "$folder/bin/pip" install "$@" "$work/streamfleet/python" "$work/streamfleet/django" >"$work/log" 2>&1; then
    cat "$work/log" >&2
    return 1
  fi
  "$folder/bin/python" -c 'import django, sys; print("     Python", sys.version.split()[0], "with Django", django.__version__)'
  (cd "$here" && PYTHONPATH=$here/../python PYTHONDONTWRITEBYTECODE=1 "$folder/bin/python" -m unittest discover -t . -s tests)
}

if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))'; then
  checked "$work/6" "Django>=6" django-tasks-db
  (cd "$work/streamfleet" && find . | sort) | diff "$work/before" - || { echo "pip install writes into the folder that it installs" >&2; exit 1; }
else
  echo "skip Django 6: it needs Python 3.12"
fi
checked "$work/5" "Django==5.2.*" django-tasks django-tasks-db
[ -n "${STREAMFLEET_BIN:-}" ] || echo "skip the tests with the real program: set STREAMFLEET_BIN to its path"
