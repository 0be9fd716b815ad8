# shellcheck shell=bash
# Sourced by check.sh: checks the manifests, alone and combined, and that mistakes in them are detected.

KUBERNETES=1.34

# Prints the command that renders a kustomization on this machine.
renderer() {
  if command -v kustomize >/dev/null; then echo kustomize build; return; fi
  if tool_debian kubernetes-client kubectl sid; then echo kubectl kustomize; fi
}

# render TREE OVERLAY FILE
render() { $render "$1/overlays/$2" >"$3"; }

# Checks a rendered overlay. Further arguments go to manifests.py.
judge() {
  local file=$1
  shift
  kubernetes-validate --strict --quiet --no-warn -k "$KUBERNETES" "$file" &&
    python3 check/manifests.py "$file" ../docs "$@"
}

# with_component NAME [LINE…]: creates an overlay of the base, the console and one component, in a copy of the tree, with further lines.
with_component() {
  local name=$1
  shift
  mkdir "$work/tree/overlays/$name"
  printf '%s\n' 'namespace: streamfleet' 'resources: [../../base, ../../console]' "components: [../../components/$name]" "$@" \
    >"$work/tree/overlays/$name/kustomization.yaml"
}

# The component needs a configuration with the host of its Ingress.
with_console_ingress() {
  with_component console-ingress configMapGenerator: '  - name: streamfleet-console-config' '    behavior: merge' '    files: [console.toml]'
  cp "$work/tree/overlays/prod/console.toml" "$work/tree/overlays/console-ingress"
}

rendered_and_judged() { render "$1" "$2" "$work/$2.yaml" && judge "$work/$2.yaml" "${@:3}"; }

manifests() {
  cp -R kubernetes "$work/tree"
  expect "kubernetes: overlay dev" rendered_and_judged "$work/tree" dev
  expect "kubernetes: overlay prod, with digests and without secrets" rendered_and_judged "$work/tree" prod --pinned
  local component
  for component in kubernetes/components/*/; do
    component=$(basename "$component")
    if [ "$component" = console-ingress ]; then with_console_ingress; else with_component "$component"; fi
    expect "kubernetes: base and console with component $component" rendered_and_judged "$work/tree" "$component"
  done
}

# Checks the objects of KEDA and of the Prometheus operator in everything that was rendered above.
custom_resources() {
  if ! tool_module cloudcoil-models-keda==2.16.1.0 cloudcoil.models.keda ||
    ! tool_module cloudcoil-models-prometheus-operator==0.80.1.0 cloudcoil.models.prometheus_operator; then
    skip "kubernetes: the definitions of keda.sh and monitoring.coreos.com are not available on this machine"
    return
  fi
  expect "kubernetes: objects of keda.sh and monitoring.coreos.com match their definitions" python3 check/custom_resources.py "$work"/*.yaml
  local words
  sed -e 's/pollingInterval/pollInterval/' -e 's/maxReplicaCount: 20/maxReplicaCount: "20"/' -e 's/formula:/formulae:/' \
    -e 's/interval: 15s/interval: 15 seconds/' -e 's/parameter:/parametre:/' "$work/prod.yaml" >"$work/customs"
  python3 check/custom_resources.py "$work/customs" >"$work/said" && fail "accepted: objects of keda.sh and monitoring.coreos.com with mistakes"
  for words in pollInterval 'maxReplicaCount: Input should be a valid integer' scalingModifiers.formulae \
    'interval: String should match pattern' parametre; do
    if grep -qF "$words" "$work/said"; then right "refused: $words"; else fail "not reported: $words"; fi
  done
}

# spoiled OVERLAY FILE SED-EXPRESSION WORDS: checks that a copy with this mistake is refused, with these words.
spoiled() {
  local overlay=$1 file=$2 mistake=$3 words=$4
  rm -rf "$work/spoiled"
  cp -R "$work/tree" "$work/spoiled"
  sed -i.before "$mistake" "$work/spoiled/$file"
  if cmp -s "$work/spoiled/$file" "$work/spoiled/$file.before"; then
    fail "the mistake '$mistake' does not change $file"
  elif rendered_and_judged "$work/spoiled" "$overlay" --pinned >"$work/said" 2>&1; then
    fail "accepted: $file with the mistake $mistake"
  elif grep -q -- "$words" "$work/said"; then
    right "refused: $words"
  else
    fail "refused, but not because '$words'"
    quote
  fi
}

spoiled_copies() {
  local worker=base/deployment.yaml
  spoiled prod $worker 's/minReadySeconds/minRedySeconds/' 'minRedySeconds'
  spoiled prod $worker 's/cpu: 250m/cpu: 250mm/' 'cpu is 250mm, which is not a valid quantity'
  spoiled prod $worker 's/ScheduleAnyway/ScheduleSometime/' 'whenUnsatisfiable is ScheduleSometime'
  spoiled prod $worker 's/runAsNonRoot: true/runAsNonRoot: false/' 'it may run as root'
  spoiled prod $worker 's/readOnlyRootFilesystem: true/readOnlyRootFilesystem: false/' 'its root file system is writable'
  spoiled prod $worker 's/allowPrivilegeEscalation: false/allowPrivilegeEscalation: true/' 'it may gain privileges'
  spoiled prod $worker 's/drop: \[ALL\]/drop: [NET_RAW]/' 'it does not drop all capabilities'
  spoiled prod $worker 's/type: RuntimeDefault/type: Unconfined/' 'seccomp is not RuntimeDefault'
  spoiled prod $worker 's/GracePeriodSeconds: 80/GracePeriodSeconds: 70/' 'a grace period of 70 s is too short'
  spoiled prod $worker 's/path: \/livez/path: \/readyz/' 'its livenessProbe does not request /livez'
  spoiled prod $worker 's/path: \/startupz/path: \/readyz/' 'its startupProbe does not request /startupz'
  spoiled prod $worker 's/containerPort: 9464/containerPort: 9465/' 'but its port is 9465'
  spoiled prod $worker 's/secretName: streamfleet-redis/secretName: redis/' 'there is no Secret redis'
  spoiled prod $worker 's/path: password/path: word/' 'no secret is mounted at the path in redis.password_file'
  spoiled prod $worker 's/name: streamfleet-config/name: streamfleet-settings/' 'there is no ConfigMap'
  spoiled prod base/kustomization.yaml 's/includeTemplates/includeSelectors/' 'it lets workers connect only to workers'
  spoiled prod base/poddisruptionbudget.yaml 's/component: worker/component: server/' 'it selects no pods'
  spoiled prod base/networkpolicy.yaml 's/port: telemetry/port: metrics/' 'there is no port metrics'
  spoiled prod overlays/prod/streamfleet.toml 's/^url_file.*/url = "redis:\/\/somewhere"/' 'must be in a Secret'
  spoiled prod overlays/prod/kustomization.yaml '/digest:/d' 'has no digest'
  spoiled prod components/keda-redis-streams/scaledobject.yaml 's/streamLength/lagCount/' 'lag does not include running jobs'
  spoiled prod components/keda-redis-streams/scaledobject.yaml 's/:jobs:high/:high/' 'is not a lane'
  local prometheus=components/keda-prometheus/scaledobject.yaml metrics_api=components/keda-metrics-api
  spoiled keda-prometheus $prometheus 's/streamfleet_queue_[a-z_]*/streamfleet_queue_length/' 'there is no metric'
  spoiled keda-prometheus $prometheus 's/ignoreNullValues: "false"/ignoreNullValues: "true"/' 'a lost target would look like an empty queue'
  spoiled hpa-external components/hpa-external/horizontalpodautoscaler.yaml 's/streamfleet_queue_[a-z_]*/streamfleet_queue_length/' 'there is no metric'
  spoiled hpa-external components/hpa-external/horizontalpodautoscaler.yaml 's/minReplicas: 1/minReplicas: 0/' 'delayed jobs are not promoted'
  spoiled keda-metrics-api $metrics_api/scaledobject.yaml 's/valueLocation: jobs/valueLocation: backlog/' 'the answer has no field backlog'
  spoiled keda-metrics-api $metrics_api/scaledobject.yaml 's/9464.scale/9464\/scaling/' 'workers do not serve /scaling'
  spoiled keda-metrics-api $metrics_api/scaledobject.yaml 's/:9464/:80/' 'streamfleet-telemetry.streamfleet has no port 80'
  spoiled keda-metrics-api $metrics_api/service.yaml 's/name: streamfleet-telemetry/name: telemetry/' 'there is no Service streamfleet-telemetry'
  spoiled keda-metrics-api $metrics_api/networkpolicy.yaml 's/: keda$/: scaler/' 'no NetworkPolicy admits KEDA'
  spoiled dev components/redis-dev/kustomization.yaml 's/networkpolicy.yaml, //' 'Deployment redis: every pod of the cluster may connect to it'
  spoiled dev components/redis-dev/networkpolicy.yaml '0,/^  podSelector:/s//&\n    matchExpressions: [{key: tier, operator: Exists}]/' \
    'Deployment redis: every pod of the cluster may connect to it'
  spoiled dev base/serviceaccount.yaml 's/name: streamfleet/name: fleet/' 'its service account does not exist'
}

spoiled_consoles() {
  local console=console/deployment.yaml policy=console/networkpolicy.yaml config=overlays/prod/console.toml
  local ingress=components/console-ingress
  spoiled prod $console 's/runAsNonRoot: true/runAsNonRoot: false/' 'Deployment streamfleet-console: it may run as root'
  spoiled prod $console 's/readOnlyRootFilesystem: true/readOnlyRootFilesystem: false/' 'streamfleet-console: its root file system is writable'
  spoiled prod $console 's/allowPrivilegeEscalation: false/allowPrivilegeEscalation: true/' 'streamfleet-console: it may gain privileges'
  spoiled prod $console 's/automountServiceAccountToken: false/automountServiceAccountToken: true/' 'it mounts a token for the API server'
  spoiled prod $console 's/memory: 512Mi/cpu: 512m/' 'streamfleet-console: it has no memory limit'
  spoiled prod $console 's/cpu: 50m/ephemeral-storage: 1Gi/' 'streamfleet-console: it does not request both cpu and memory'
  spoiled prod $console 's/path: \/healthz/path: \/readyz/' 'its readinessProbe does not request /healthz'
  spoiled prod $console 's/path: \/login/path: \/healthz/' 'its livenessProbe does not request /login'
  spoiled prod $console 's/value: localhost/value: jobs.example.com/' 'its startupProbe does not request /login'
  spoiled prod $console 's/readinessProbe:/livenessProbe2:/' 'livenessProbe2'
  spoiled prod $console 's/containerPort: 9470/containerPort: 9471/' 'it listens on 0.0.0.0:9470, but its port is 9471'
  spoiled prod $console 's/secretName: streamfleet-console/secretName: streamfleet-redis/' "it uses the workers' login to Redis"
  spoiled prod $console 's/defaultMode: 0440/defaultMode: 0444/' 'every user of the container may read its secrets'
  spoiled prod $console 's/path: session-key/path: key/' 'no secret is mounted at the path in console.session_key_file'
  spoiled prod $console 's/path: accounts.toml/path: accounts/' 'no secret is mounted at the path in console.accounts_file'
  spoiled prod $console 's/name: streamfleet-console-config/name: streamfleet-config/' 'no ConfigMap has /etc/streamfleet-console/console.toml'
  spoiled prod $console 's/GracePeriodSeconds: 20/GracePeriodSeconds: 10/' 'a grace period of 10 s is too short for a pause of 5 s'
  spoiled prod $console 's/seconds: 5/seconds: 0/' 'it stops at once'
  spoiled prod console/service.yaml 's/targetPort: http/targetPort: telemetry/' 'its pods have no port telemetry'
  spoiled prod console/service.yaml 's/^  ports:/  type: LoadBalancer\n  ports:/' 'it is open to other machines'
  spoiled prod $policy 's/\[Ingress, Egress\]/[Ingress]/' 'it does not restrict both directions'
  spoiled prod $ingress/networkpolicy.yaml 's/port: http/port: telemetry/' 'it opens other ports than http'
  spoiled prod $ingress/networkpolicy.yaml '/- from:/,/controller/d; s/^      ports:/    - ports:/' 'it lets everybody in'
  spoiled prod $ingress/kustomization.yaml '/^patches:/,$d' 'it does not admit the ingress controller'
  spoiled prod $ingress/ingress.yaml 's/secretName: streamfleet-console-tls/secretName: certificate/' 'there is no Secret certificate'
  spoiled prod $ingress/ingress.yaml 's/name: http/name: web/' 'has no port'
  spoiled prod $config 's/jobs.example.com/console.example.com/' 'console.public_url is https://console.example.com'
  spoiled prod $config 's/https:/http:/' 'console.public_url does not begin with https'
  spoiled prod $config '/^from/d' 'all clients share the address of the ingress controller'
  spoiled prod $config 's/^url_file.*/url = "redis:\/\/somewhere"/' 'the address of Redis must be in a Secret'
  spoiled prod $config 's/^listen.*/listen = "127.0.0.1:9470"/' 'it listens on 127.0.0.1:9470'
}

kubernetes() {
  render=$(renderer)
  if [ -z "$render" ]; then
    skip "kubernetes: neither kustomize nor kubectl is available on this machine"
  elif ! tool_python kubernetes-validate==1.37.0 kubernetes-validate || ! tool_module PyYAML==6.0.3 yaml; then
    skip "kubernetes: kubernetes-validate or PyYAML is not available on this machine"
  else
    manifests
    custom_resources
    spoiled_copies
    spoiled_consoles
  fi
}
