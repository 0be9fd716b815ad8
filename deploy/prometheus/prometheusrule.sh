#!/usr/bin/env bash
# Writes the rules as an object for the Prometheus operator. With --check, it writes nothing, and fails if the object is out of date.
set -euo pipefail
cd "$(dirname "$0")"

made=../kubernetes/components/rules/prometheusrule.yaml
object() {
  cat <<'YAML'
# Made from deploy/prometheus/rules.yaml by deploy/prometheus/prometheusrule.sh. Do not edit: change the rules, and run it.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: streamfleet
spec:
YAML
  # Comments are kept, except those at the top.
  sed -n '/^groups:/,$p' rules.yaml | sed 's/^./  &/'
}

if [ "${1:-}" != --check ]; then
  object >"$made"
elif ! object | cmp -s - "$made"; then
  echo "$made is out of date; run deploy/prometheus/prometheusrule.sh" >&2
  exit 1
fi
