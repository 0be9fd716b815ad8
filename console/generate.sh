#!/usr/bin/env bash
# usage: generate.sh [PROGRAM]
#
# Saves the description of the API to openapi.json, from a console that it starts with a private Redis, and generates the types of the client
# from it. PROGRAM is the program; by default, the newest build.
set -euo pipefail
cd "$(dirname "$0")"
program=$(realpath "${1:-../target/debug/streamfleet}")
folder=$(mktemp -d)
touch "$folder/said" "$folder/log"
"$program" dev --folder "$folder/redis" --console 127.0.0.1:0 >"$folder/said" 2>"$folder/log" &
pid=$!
trap 'kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; rm -rf "$folder"' EXIT
for _ in $(seq 300); do
  url=$(sed -n 's|^console: *\(http://[^/]*\)/.*|\1|p' "$folder/said" "$folder/log")
  [ -z "$url" ] || break
  kill -0 "$pid" || { cat "$folder/log" >&2; exit 1; }
  sleep 0.1
done
[ "$url" ] || { echo "the console did not start within 30 s" >&2; cat "$folder/log" >&2; exit 1; }
node -e '
  const answer = await fetch(process.argv[1] + "/api/v1/openapi.json");
  if (!answer.ok) throw new Error(answer.status);
  const { writeFileSync } = await import("node:fs");
  writeFileSync("openapi.json", JSON.stringify(await answer.json(), null, 2) + "\n");
' --input-type=module "$url"
npm run --silent types
