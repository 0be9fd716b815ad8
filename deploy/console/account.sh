#!/usr/bin/env bash
# usage: account.sh FOLDER NAME ROLE [PROGRAM…]
#
# Adds a person to the console's accounts in FOLDER/accounts.toml, with a random password, which it prints. PROGRAM is the command that runs
# streamfleet, which makes the hash: by default `streamfleet`, or for example `docker run --rm --interactive streamfleet:dev`. ROLE is viewer,
# submitter, operator or admin. FOLDER/session-key is the key that signs sessions; if there is none, it is created.
#
# Only the owner can enter the folder. Everybody can read the files in it, because the user in a container that mounts them is a different one.
# A running console sees the new person within a second. The file is appended to, never replaced, so a container that mounts it sees it too.
set -euo pipefail

[ $# -ge 3 ] || { sed -n 2p "$0" >&2; exit 2; }
folder=$1 name=$2 role=$3
shift 3
[ $# -gt 0 ] || set -- streamfleet
case $name in '' | *[!a-zA-Z0-9_-]*) echo "the name may have letters, digits, - and _, but is '$name'" >&2; exit 2 ;; esac
case $role in viewer | submitter | operator | admin) ;; *) echo "the role is '$role', but must be viewer, submitter, operator or admin" >&2; exit 2 ;; esac

random() { od -An -N "$1" -t x1 /dev/urandom | tr -d ' \n'; }

umask 022
mkdir -p "$folder"
chmod 700 "$folder"
accounts=$folder/accounts.toml
if [ -e "$accounts" ] && grep -qxF "[people.$name]" "$accounts"; then
  echo "$accounts has $name already; remove that section first" >&2
  exit 1
fi
[ -s "$folder/session-key" ] || random 32 >"$folder/session-key"
password=$(random 12)
# A pipe, because other users can see arguments.
hash=$(printf '%s\n' "$password" | "$@" console password) || hash=
case $hash in \$argon2*) ;; *) echo "'$* console password' printed no hash" >&2; exit 1 ;; esac
printf "[people.%s]\npassword = '%s'\nrole = \"%s\"\n\n" "$name" "$hash" "$role" >>"$accounts"
echo "password of $name: $password"
