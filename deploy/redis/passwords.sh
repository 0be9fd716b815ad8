#!/usr/bin/env bash
# usage: passwords.sh FOLDER
#
# Makes a password for each login of users.acl: FOLDER/NAME is the password of NAME, FOLDER/users.acl is what Redis reads. What is there
# already is kept, so that a new login gets a password and the others stay. The folder is for its owner alone; the files in it can be
# read by whoever gets them mounted, since a container's user is another one.
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
