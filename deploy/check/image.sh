#!/usr/bin/env bash
# Builds both images from their Dockerfile, without a registry, and runs them as a cluster would, with a private Redis.
#
# The script compiles the program as the Dockerfile's stage `build` does, and passes the result to the Dockerfile as that stage. Only a
# registry has the base images of the stages `runtime` and `shell`, so an empty image and a minimal Debian replace them. The script needs
# root, a few minutes for the first build, and about a gigabyte in the folder of tools.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools.sh
. ./tools.sh

target=$(uname -m)-unknown-linux-musl
store=$work/images
redis_pid=

finish() {
  [ -z "$redis_pid" ] || kill "$redis_pid"
  for each in runtime shell console; do runc --root "$work/runc" delete --force "$each" >"$work/ended" 2>&1 || true; done
  rm -rf "$work"
}
trap finish EXIT

# Prints what this machine lacks, or nothing.
missing() {
  [ "$(id -u)" = 0 ] || { echo "building without a registry requires root"; return; }
  command -v cargo >/dev/null || { echo "cargo is not on the PATH"; return; }
  command -v gcc >/dev/null || { echo "gcc is not on the PATH"; return; }
  command -v redis-server >/dev/null || { echo "redis-server is not on the PATH"; return; }
  [ -e "$(rustc --print sysroot)/lib/rustlib/$target" ] || rustup target add "$target" >"$work/said" 2>&1 ||
    { echo "Rust's libraries for $target are not available on this machine"; return; }
  for each in buildah runc debootstrap patchelf; do
    tool_debian "$each" "$each" || { echo "$each is not available on this machine"; return; }
  done
  tool_debian musl-tools musl-gcc || { echo "musl-tools is not available on this machine"; return; }
  tool_module PyYAML==6.0.3 yaml || { echo "PyYAML is not available on this machine"; return; }
}

# buildah re-executes itself and then no longer finds the libraries that came with it, so their path is written into the program.
lend_libraries() {
  local each
  for each in "$tools"/debian-*/usr/bin/buildah; do
    [ ! -x "$each" ] || patchelf --force-rpath --set-rpath "$(echo "${each%/bin/buildah}"/lib/*-linux-gnu)" "$each"
  done
}

# Prints the compiler of musl-tools. It expects its files where they would be if it were installed, so a wrapper gives it the right paths.
musl_compiler() {
  local specs folder
  for specs in "$tools"/debian-*/usr/lib/*-linux-musl/musl-gcc.specs; do
    [ -e "$specs" ] || { command -v musl-gcc; return; }
    folder=${specs%/lib/*}
    sed "s#/usr/\(include\|lib\)/#$folder/\1/#g" "$specs" >"$tools/musl.specs"
  done
  # shellcheck disable=SC2016
  printf '#!/bin/sh\nexec gcc "$@" -specs %s\n' "$tools/musl.specs" >"$tools/bin/musl-compiler"
  chmod +x "$tools/bin/musl-compiler"
  echo "$tools/bin/musl-compiler"
}

# Compiles the program from the files that the Dockerfile gets, and no others.
compile() {
  local each compiler variable context=$tools/context
  rm -rf "$context" && mkdir "$context"
  while read -r each; do mkdir -p "$context/$(dirname "$each")" && cp -a "../$each" "$context/$each"; done < <(sed -n 's/^!//p' docker/Dockerfile.dockerignore)
  compiler=$(musl_compiler)
  variable=CC_$(echo "$target" | tr - _)
  env "$variable=$compiler" CARGO_PROFILE_RELEASE_DEBUG=false CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/../target}" \
    cargo build --quiet --release --locked --bin streamfleet --target "$target" --manifest-path "$context/Cargo.toml"
  mkdir -p "$work/build/out"
  cp "${CARGO_TARGET_DIR:-../target}/$target/release/streamfleet" "$work/build/out/streamfleet"
}

buildah() {
  command buildah --storage-driver vfs --root "$store" --runroot "$work/storage" "$@"
}

# build STAGE ARGUMENT…: builds the image streamfleet:STAGE.
build() {
  local stage=$1
  shift
  echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$work/policy.json"
  buildah build --signature-policy "$work/policy.json" --isolation chroot --format docker --build-context "build=$work/build" \
    --target "$stage" --file docker/Dockerfile --tag "streamfleet:$stage" "$@" ..
}

# Creates a Debian with only the essential packages, and keeps it in the folder of tools.
minimal_debian() {
  local each base=$tools/minimal-debian
  [ ! -e "$base/ready" ] || return 0
  for each in "$tools"/debian-*/usr/share/debootstrap; do export DEBOOTSTRAP_DIR=$each; done
  rm -rf "$base"
  debootstrap --variant=minbase bookworm "$base/root" && touch "$base/ready"
}

shell_image() {
  minimal_debian || return 1
  printf 'FROM scratch\nCOPY root /\n' >"$work/Base"
  buildah build --signature-policy "$work/policy.json" --isolation chroot --file "$work/Base" --tag minimal-debian "$tools/minimal-debian"
  build shell --build-arg SHELL_BASE=localhost/minimal-debian
}

# unpack_image IMAGE: writes its files to $work/IMAGE/rootfs and its configuration to $work/IMAGE/image.json.
unpack_image() {
  local container
  mkdir -p "$work/$1"
  buildah inspect --type image "streamfleet:$1" >"$work/$1/image.json"
  container=$(buildah from --signature-policy "$work/policy.json" --pull-never "localhost/streamfleet:$1")
  cp -a "$(buildah mount "$container")" "$work/$1/rootfs"
  (cd "$work/$1/rootfs" && find . -type f) >"$work/$1/files"
  # Mounts need a mount point.
  mkdir -p "$work/$1"/rootfs/{proc,dev,sys,tmp,etc/streamfleet,run/secrets}
}

static() {
  local said
  said=$(ldd "$1" 2>&1 || true)
  echo "$said"
  case $said in *'not a dynamic'* | *'statically linked'*) ;; *) return 1 ;; esac
}

# Succeeds if the image contains our program and no other file.
nothing_else() {
  cat "$work/runtime/files"
  [ "$(cat "$work/runtime/files")" = ./usr/bin/streamfleet ]
}

says_of_itself() {
  python3 - "$work/$1/image.json" "$2" <<'PYTHON'
import json, sys

with open(sys.argv[1], encoding="utf-8") as file:
    config = json.load(file)["Docker"]["config"]
assert config["User"] == "65532:65532", config["User"]
assert config["Entrypoint"] == sys.argv[2].split(), config["Entrypoint"]
assert config["Cmd"] == ["worker"], config["Cmd"]
assert config["StopSignal"] == "SIGTERM", config["StopSignal"]
assert config["Healthcheck"]["Test"] == ["CMD", "/usr/bin/streamfleet", "healthcheck"], config["Healthcheck"]
assert "9464/tcp" in config["ExposedPorts"], config["ExposedPorts"]
PYTHON
}

# Starts a Redis with the logins and the configuration of redis/.
start_redis() {
  redis/passwords.sh "$work/logins"
  mkdir "$work/data"
  (cd "$work/data" && exec redis-server "$OLDPWD/redis/redis.conf" --bind 127.0.0.1 --port "$port" --aclfile "$work/logins/users.acl") \
    >"$work/redis.log" 2>&1 &
  redis_pid=$!
  within 10 as monitor PING
}

as() {
  local login=$1
  shift
  redis-cli -p "$port" --no-auth-warning --user "$login" --pass "$(cat "$work/logins/$login")" -e "$@"
}

# within SECONDS COMMAND…: repeats the command until it succeeds.
within() {
  local until=$((SECONDS + $1))
  shift
  until "$@" >"$work/tried" 2>&1; do
    if [ "$SECONDS" -ge "$until" ]; then cat "$work/tried"; return 1; fi
    sleep 0.1
  done
}

get() { python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=3).read().decode())' "http://127.0.0.1:$listen$1"; }

# start NAME: starts the worker of an image in the background. Its exit code is written to $work/NAME/code.
start() {
  printf 'redis://worker@127.0.0.1:%s\n' "$port" >"$work/url"
  mkdir -p "$work/config" && cp "check/$1.toml" "$work/config/streamfleet.toml"
  chmod -R a+rX "$work/config" "$work/url"
  python3 check/bundle.py "$work/$1/image.json" "$work/$1/config.json" "$work/config:/etc/streamfleet" "$work/url:/run/secrets/url" \
    "$work/logins/worker:/run/secrets/password" -- worker --config /etc/streamfleet/streamfleet.toml
  sed -i "s/TELEMETRY__LISTEN=0.0.0.0:9464/TELEMETRY__LISTEN=0.0.0.0:$listen/" "$work/$1/config.json"
  (runc --root "$work/runc" run --bundle "$work/$1" "$1" >"$work/$1/log" 2>&1; echo $? >"$work/$1/code") &
  within 20 get /readyz
}

# Starts the console in the image `runtime`, with its own login and an account. Its worker must have stopped.
start_console() {
  mkdir "$work/console"
  printf 'redis://console@127.0.0.1:%s\n' "$port" >"$work/url"
  cp check/console.toml "$work/config/console.toml"
  chmod -R a+rX "$work/config"
  console/account.sh "$work/logins" ann admin "$work/build/out/streamfleet"
  python3 check/bundle.py "$work/runtime/image.json" "$work/runtime/config.json" "$work/config:/etc/streamfleet" "$work/url:/run/secrets/url" \
    "$work/logins/console:/run/secrets/password" "$work/logins/accounts.toml:/run/secrets/accounts.toml" \
    "$work/logins/session-key:/run/secrets/session-key" -- console --config /etc/streamfleet/console.toml --listen "0.0.0.0:$listen"
  (runc --root "$work/runc" run --bundle "$work/runtime" console >"$work/console/log" 2>&1; echo $? >"$work/console/code") &
  within 20 get /healthz
}

console_healthy() { runc --root "$work/runc" exec console /usr/bin/streamfleet healthcheck --probe console --address "127.0.0.1:$listen"; }

# stop NAME: sends SIGTERM, and succeeds if the worker ends with 0.
stop() {
  runc --root "$work/runc" kill "$1" TERM
  within 30 test -s "$work/$1/code" && [ "$(cat "$work/$1/code")" = 0 ] || { cat "$work/$1/log"; return 1; }
}

healthy() { runc --root "$work/runc" exec "$1" /usr/bin/streamfleet healthcheck; }

unhealthy() {
  ! runc --root "$work/runc" exec --env STREAMFLEET__TELEMETRY__LISTEN=127.0.0.1:1 "$1" /usr/bin/streamfleet healthcheck >"$work/health" &&
    grep 'not live' "$work/health"
}

# works TYPE: succeeds if a job of this type is done within 20 s.
works() {
  local before
  before=$(finished "$1")
  as producer XADD 'sf:{default}:jobs' '*' type "$1"
  within 20 more_than "${before:-0}" "$1"
}

finished() { get /metrics | sed -n "s/^streamfleet_jobs_finished_total{.*job_type=\"$1\",outcome=\"succeeded\"} //p"; }

more_than() { [ "$(finished "$2")" -gt "$1" ]; }

# The child process that the program left behind has ended and has been reaped.
buried() { runc --root "$work/runc" exec "$1" /bin/sh -c '! grep -l "^Name:.sleep$" /proc/[0-9]*/status'; }

restricted() {
  local pid status
  pid=$(runc --root "$work/runc" state "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])')
  status=$(cat "/proc/$pid/status")
  echo "$status"
  grep -q '^Uid:.65532.65532' <<<"$status" && grep -q '^CapEff:.0*$' <<<"$status" && grep -q '^CapBnd:.0*$' <<<"$status" &&
    grep -q '^NoNewPrivs:.1' <<<"$status" && [ "$(awk '$5 == "/" { print $6 }' "/proc/$pid/mountinfo" | cut -d, -f1)" = ro ]
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

images() {
  expect "the program: built for $target" compile
  [ -x "$work/build/out/streamfleet" ] || return 0
  expect "the program: statically linked" static "$work/build/out/streamfleet"
  expect "image runtime: built by buildah" build runtime --build-arg RUNTIME_BASE=scratch
  expect "image shell: built by buildah" shell_image
}

runs() {
  expect "image $1: unpacked" unpack_image "$1"
  expect "image $1: configuration" says_of_itself "$1" "$2"
  listen=$(free_port)
  expect "image $1: a worker starts and is ready" start "$1"
  if [ "$wrong" -gt 0 ]; then account image; fi
  expect "image $1: user 65532, no capabilities, no new privileges, read-only root" restricted "$1"
  expect "image $1: a job is done" works "$3"
  expect "image $1: /livez answers" get /livez
  expect "image $1: healthcheck ends with 0" healthy "$1"
  expect "image $1: healthcheck ends with 1 if nothing answers" unhealthy "$1"
}

why=$(missing)
if [ -n "$why" ]; then
  skip "images: $why"
  account image
  exit
fi
lend_libraries
began=$SECONDS
images
if [ "$wrong" -gt 0 ]; then account image; fi
port=$(free_port)
expect "a Redis with the logins of redis/users.acl" start_redis
runs runtime /usr/bin/streamfleet example.noop
expect "image runtime: contains only the program" nothing_else
expect "image runtime: SIGTERM ends it with 0" stop runtime
listen=$(free_port)
expect "image runtime: the console starts with an account and its own login" start_console
if [ "$wrong" -gt 0 ]; then account image; fi
expect "image runtime: the console runs as user 65532, no capabilities, no new privileges, read-only root" restricted console
expect "image runtime: healthcheck --probe console ends with 0" console_healthy
expect "image runtime: SIGTERM ends the console with 0" stop console
runs shell "/usr/bin/tini -- /usr/bin/streamfleet" example.shell
expect "image shell: a process that a program leaves behind is reaped" within 10 buried shell
expect "image shell: SIGTERM ends it with 0" stop shell
printf '      runtime: %s bytes; shell: %s; duration: %s s\n' "$(stat -c %s "$work/build/out/streamfleet")" \
  "$(buildah images --format '{{.Size}}' streamfleet:shell)" "$((SECONDS - began))"
account image
