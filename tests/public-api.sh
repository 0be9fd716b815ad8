#!/usr/bin/env bash
# Compares the library's public API with the lists in tests/public-api, so that a review shows every change of it.
#
# usage: tests/public-api.sh [--update]      with --update, writes the lists
#
# default.txt has what users get without features, all.txt what they get with all of them. The module `sabotage` is in neither, because it is
# hidden. Impls that are derived, blanket, or of auto traits are not listed. Exit code 0: the lists are right. 1: they are not, or could not be
# made.
set -euo pipefail
cd "$(dirname "$0")/.."

lists=tests/public-api
cargo=${CARGO:-cargo}
case ${1:-} in
  '') update= ;;
  --update) update=1 ;;
  *)
    echo "usage: tests/public-api.sh [--update]" >&2
    exit 1
    ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
target=$("$cargo" metadata --locked --no-deps --format-version 1 | sed -nE 's/.*"target_directory":"([^"]*)".*/\1/p')
docs=${target:?cargo metadata does not name the target directory}/doc

# items OPTION…: prints the items that users get of the library with these options of cargo doc, and those that it exports of the crates
# below it.
items() {
  local each described=()
  for each in streamfleet streamfleet_domain streamfleet_engine; do
    described+=("$docs/$each.json")
    # Cargo believes that rustdoc writes HTML, and starts it again only if the HTML is old or missing.
    rm -rf "${docs:?}/$each" "$docs/$each.json"
  done
  RUSTDOC=$PWD/$lists/rustdoc.sh RUSTDOCFLAGS="-Z unstable-options --output-format json --cap-lints allow" \
    "$cargo" doc --quiet --locked --no-deps --lib "$@" >&2
  "$cargo" run --quiet --locked --package streamfleet-public-api -- "${described[@]}"
}

# matches NAME: succeeds if the list is as it was checked in. Otherwise says what differs.
matches() {
  if [ ! -e "$lists/$1" ]; then
    echo "$lists/$1 does not exist" >&2
    return 1
  fi
  if cmp -s "$lists/$1" "$work/$1"; then return; fi
  echo "the public API is not as $lists/$1 says:" >&2
  diff "$lists/$1" "$work/$1" | sed -n 's/^< /  removed  /p; s/^> /  added    /p' >&2
  return 1
}

items --package streamfleet --package streamfleet-domain --package streamfleet-engine >"$work/default.txt"
# With the features that the dependencies have in `make lint`, so that none is compiled again.
items --all-features --examples >"$work/all.txt"
for name in default.txt all.txt; do
  # A list without the crate's root was not made from this library.
  grep -qx 'pub mod streamfleet' "$work/$name" || {
    echo "$name does not list the library: rustdoc or the crate public-api has changed" >&2
    exit 1
  }
done

if [ "$update" ]; then
  mv "$work/default.txt" "$work/all.txt" "$lists/"
  echo "public API: wrote $lists/default.txt and all.txt; review them with git diff"
  exit
fi
right=1
for name in default.txt all.txt; do matches "$name" || right=; done
if [ ! "$right" ]; then
  echo "If this is intended, run \`make public-api-update\` and commit the lists. CONTRIBUTING.md says which changes break users." >&2
  exit 1
fi
echo "public API: $(wc -l <"$lists/default.txt") items by default and $(wc -l <"$lists/all.txt") with all features, as checked in"
