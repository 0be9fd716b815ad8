#!/usr/bin/env bash
# Lints the Lua scripts that run inside Redis: no global variable, and no unused or shadowed name.
set -euo pipefail
cd "$(dirname "$0")/../crates/engine/src"

# The files of the prelude, in the order in which a script gets their parts.
mapfile -t parts < <(sed -nE 's|^ *include_str!\("(prelude/[a-z]+\.lua)"\),$|client/\1|p' client/assemble.rs)
found=$(find client/prelude -name '*.lua' | wc -l)
if [[ ${#parts[@]} -ne $found ]]; then
  echo "client/assemble.rs names ${#parts[@]} files of the prelude, but there are $found" >&2
  exit 1
fi
# The names that every script may use: those of Redis, and what the prelude defines.
shared=$(sed -nE 's/^local (function )?([A-Za-z_]+).*/\2/p' "${parts[@]}")
lint() {
  luacheck --quiet --no-color --std lua51 --no-max-line-length --globals redis KEYS ARGV cjson cmsgpack struct bit "${extra[@]}" -- "$@"
}

mapfile -t scripts < <(find . -name '*.lua' ! -path './client/prelude/*' | sort)
mapfile -t extra <<<"$shared"
lint "${scripts[@]}"
# What the prelude defines is used by the scripts alone. It is one chunk, so a part that uses a later one is found.
extra=(--ignore 211)
whole=$(mktemp --suffix=.lua)
spoiled=$(mktemp --suffix=.lua)
trap 'rm -f "$whole" "$spoiled"' EXIT
cat "${parts[@]}" >"$whole"
lint "$whole"

# The linter notices what it is here for.
extra=()
for mistake in 'count = 1' 'local unused = 1' 'return redis.call("GET", KEY[1])' 'local a = 1 do local a = 2 print(a) end return a'; do
  printf '%s\n' "$mistake" >"$spoiled"
  if lint "$spoiled" >/dev/null 2>&1; then
    echo "the linter accepted: $mistake" >&2
    exit 1
  fi
done
echo "lua: ${#scripts[@]} scripts and the prelude are clean"
