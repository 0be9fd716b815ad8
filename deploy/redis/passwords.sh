#!/usr/bin/env bash
# usage: passwords.sh FOLDER
#
# Creates a password for each login in users.acl. FOLDER/NAME contains the password of NAME, and Redis reads FOLDER/users.acl. Existing
# passwords are kept, so only a new login gets a new password. Only the owner can enter the folder. Everybody can read the files in it, because
# the user in a container that mounts them is a different one.
set -euo pipefail

[ $# = 1 ] || { sed -n 2p "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
umask 022
mkdir -p "$1"
chmod 700 "$1"
cp "$here/users.acl" "$1/users.acl.new"
while read -r name; do
  [ -s "$1/$name" ] || od -An -N 32 -t x1 /dev/urandom | tr -d ' \n' >"$1/$name"
  sum=$(sha256sum <"$1/$name")
  sed "s/#SHA-256-of-$name /#${sum%% *} /" "$1/users.acl.new" >"$1/users.acl.next"
  mv "$1/users.acl.next" "$1/users.acl.new"
done < <(sed -n 's/^user \([a-z]*\) on .*/\1/p' "$here/users.acl")
mv "$1/users.acl.new" "$1/users.acl"
