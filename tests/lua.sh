#!/usr/bin/env bash
# Lints the Lua scripts that run inside Redis: no global variable, and no unused or shadowed name.
set -euo pipefail
cd "$(dirname "$0")/../crates/engine/src"

# The names that every script may use: those of Redis, and what the prelude defines.
shared=$(sed -nE 's/^local (function )?([A-Za-z_]+).*/\2/p' client/prelude.lua)
lint() {
  luacheck --quiet --no-color --std lua51 --no-max-line-length --globals redis KEYS ARGV cjson cmsgpack struct bit "${extra[@]}" -- "$@"
}

mapfile -t scripts < <(find . -name '*.lua' ! -name prelude.lua | sort)
mapfile -t extra <<<"$shared"
lint "${scripts[@]}"
# What the prelude defines is used by the scripts alone.
extra=(--ignore 211)
lint client/prelude.lua

# The linter notices what it is here for.
extra=()
spoiled=$(mktemp --suffix=.lua)
trap 'rm -f "$spoiled"' EXIT
for mistake in 'count = 1' 'local unused = 1' 'return redis.call("GET", KEY[1])' 'local a = 1 do local a = 2 print(a) end return a'; do
  printf '%s\n' "$mistake" >"$spoiled"
  if lint "$spoiled" >/dev/null 2>&1; then
    echo "the linter accepted: $mistake" >&2
    exit 1
  fi
done
echo "lua: ${#scripts[@]} scripts and the prelude are clean"
