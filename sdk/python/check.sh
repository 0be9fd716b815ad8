#!/usr/bin/env bash
# Runs every test of the Python package, on a private Redis. With STREAMFLEET_BIN=/path/to/streamfleet, also those with a real worker.
#
# It installs the package and redis-py into a new environment in a temporary folder, as the README's quick start does. If pip cannot,
# because there is no network, it uses the redis-py that this Python has, such as Debian's python3-redis.
# Tests that need MariaDB or PostgreSQL start a server of their own if it is installed (Debian: mariadb-server, postgresql), and are skipped if not.
# PYTHON selects the interpreter. Exit code 0: everything that could run passed. Lines that begin with "skip" name what could not.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

[ -n "${STREAMFLEET_TEST_REDIS:-}" ] || command -v redis-server >/dev/null || command -v valkey-server >/dev/null || {
  echo "neither redis-server nor valkey-server is on the PATH: apt-get install redis-server" >&2
  exit 1
}
if [ -n "${STREAMFLEET_BIN:-}" ]; then
  STREAMFLEET_BIN=$(realpath "$STREAMFLEET_BIN")
  export STREAMFLEET_BIN
  [ -x "$STREAMFLEET_BIN" ] || { echo "STREAMFLEET_BIN is not a program: $STREAMFLEET_BIN" >&2; exit 1; }
fi

# The block of the README. The source is a copy without what tests leave behind, to see whether the installation writes into it.
install() {
  mkdir -p "$work/streamfleet/sdk" "$work/quick" && cp -R "$here" "$work/streamfleet/sdk/python"
  find "$work/streamfleet" -name __pycache__ -prune -exec rm -rf {} +
  listed >"$work/before"
  ln -sf "$(command -v "$python")" "$work/python3"
  sed -n '/^<!-- run: shell install -->$/,/^```$/{/^<!--/d;/^```/d;p}' "$here/README.md" >"$work/install"
  (cd "$work/quick" && PATH="$work:$PATH" PIP_DISABLE_PIP_VERSION_CHECK=1 bash -euo pipefail "$work/install")
}

# The files of that copy.
listed() {
  (cd "$work/streamfleet" && find . | sort)
}

if install >"$work/log" 2>&1; then
  listed | diff "$work/before" - || { echo "pip install writes into the folder that it installs" >&2; exit 1; }
  python=$work/quick/venv/bin/python
  echo "ok   the package can be installed"
elif "$python" -c 'import redis' 2>/dev/null; then
  echo "skip the installation by pip: $(tail -n 1 "$work/log")"
else
  cat "$work/log" >&2
  echo "this Python has no redis-py, and pip cannot install it: apt-get install python3-redis, and PYTHON=/usr/bin/python3" >&2
  exit 1
fi
"$python" -c 'import redis, sys; print("     Python", sys.version.split()[0], "with redis-py", redis.__version__)'

# With the packages of pip, types and drivers of databases are checked too, and the oldest redis-py that pyproject.toml allows.
oldest=$(sed -n 's/^redis = \["redis>=\(.*\)"\]$/\1/p' "$here/pyproject.toml")
old=
if [ "$python" = "$work/quick/venv/bin/python" ]; then
  "$python" -m venv "$work/old"
  if { "$python" -m pip install mypy pyright opentelemetry-sdk celery packaging cryptography boto3 moto "psycopg[binary]" psycopg2-binary pymysql && "$work/old/bin/pip" install "redis==$oldest.*"; } >"$work/log" 2>&1; then
    old=$work/old/bin/python
  else
    cat "$work/log" >&2
    exit 1
  fi
fi
if "$python" -m mypy --version >/dev/null 2>&1; then
  (cd "$here" && "$python" -m mypy --cache-dir "$work/mypy" streamfleet)
else
  echo "skip types: mypy is not installed"
fi
# pyright is a program for Node, which its package gets when it is first used.
if "$python" -m mypy --version >/dev/null 2>&1 && "$python" -m pyright --version >/dev/null 2>&1; then
  "$python" -B "$here/tests/check_types.py"
else
  echo "skip types of the examples: mypy or pyright is not installed"
fi

"$python" -c 'import cryptography' 2>/dev/null || echo "skip encrypted payloads: cryptography is not installed"

cd "$here"
export STREAMFLEET_CHECK=1 PYTHONDONTWRITEBYTECODE=1
"$python" -m unittest discover -t . -s tests
if [ -n "$old" ]; then
  "$old" -c 'import redis; print("     redis-py", redis.__version__)'
  # Only what touches the client.
  "$old" -m unittest -k test_producer -k producers -k celery -k quick_start_works -k raw_submission tests.test_producer tests.test_readme
fi
[ -n "${STREAMFLEET_BIN:-}" ] || echo "skip the tests with the real program: set STREAMFLEET_BIN to its path"
