# shellcheck shell=bash
# Sourced by the checks of clients: a private Redis, a worker and a console, which end when the check ends.
#
#   start_fleet     starts them, and sets CONSOLE and TOKEN for the client
set -euo pipefail
examples=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../tests/console/tools.sh
. "$examples/../tests/console/tools.sh"
started=()
trap end_fleet EXIT

end_fleet() {
  [ ${#started[@]} -eq 0 ] || { kill "${started[@]}" 2>/dev/null || true; wait "${started[@]}" 2>/dev/null || true; }
  rm -rf "$work"
}

start_fleet() {
  local redis
  find_program
  find_server
  command -v curl >/dev/null || from_system curl
  redis=$(free_port)
  start redis "$server" --port "$redis" --bind 127.0.0.1 --save '' --dir "$work"
  until_true redis "${server/%-server/-cli}" -p "$redis" ping
  export STREAMFLEET__REDIS__URL=redis://127.0.0.1:$redis STREAMFLEET__TELEMETRY__LISTEN=off
  start worker "$program" --config "$examples/fleet.toml" worker
  give_token
  CONSOLE=http://127.0.0.1:$(free_port)
  STREAMFLEET__CONSOLE__ACCOUNTS_FILE=$work/accounts.toml start console "$program" --config "$examples/fleet.toml" console --listen "${CONSOLE#http://}"
  until_true console curl -fsS "$CONSOLE/healthz"
  export CONSOLE TOKEN
}

# Makes a token that may submit jobs, and see their results and errors.
give_token() {
  local said
  said=$("$program" console token)
  TOKEN=$(sed -n 's/^token: *//p' <<<"$said")
  printf '[tokens.shop]\nsha256 = "%s"\nrole = "submitter"\npayloads = true\n' "$(sed -n 's/^sha256: *//p' <<<"$said")" >"$work/accounts.toml"
}

# start NAME COMMAND…: starts a process, whose output is in a file of this name.
start() {
  local name=$1
  shift
  "$@" >"$work/$name.log" 2>&1 &
  started+=($!)
}

# until_true NAME COMMAND…: waits until the command succeeds, for a minute at most, and only while the process of this name runs.
until_true() {
  local name=$1 deadline=$((SECONDS + 60))
  shift
  until "$@" >/dev/null 2>&1; do
    if ! kill -0 "${started[-1]}" 2>/dev/null || [ "$SECONDS" -gt "$deadline" ]; then
      cp "$work/$name.log" "$work/said"
      stop "$name did not start"
    fi
    sleep 0.05
  done
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
