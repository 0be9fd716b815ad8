# shellcheck shell=bash
# Sourced by check.sh: checks the compose file and the files that it mounts, and that mistakes in them are detected.

compose() {
  patience compose/compose.yaml stop_grace_period
  # The passwords are created in a copy of the files that it mounts.
  mkdir -p "$work/composed/deploy"
  cp -R compose redis docker prometheus "$work/composed/deploy"
  cp -R ../grafana "$work/composed"
  local folder=$work/composed/deploy/compose
  expect "redis/passwords.sh: passwords for compose" redis/passwords.sh "$folder/logins"
  if docker compose version >/dev/null 2>&1; then
    expect "compose/compose.yaml: docker compose config" docker compose --file "$folder/compose.yaml" config --quiet
  fi
  if ! tool_module PyYAML==6.0.3 yaml || ! tool_module compose-spec==0.2.1 compose_spec; then
    skip "compose/compose.yaml: PyYAML or compose-spec is not available on this machine"
    return
  fi
  expect "compose/compose.yaml: follows the specification; services are confined; files exist; ports and paths match" composed compose/compose.yaml
  badly_composed
  if tool_debian prometheus promtool sid; then
    sed "s#/etc/prometheus/#$PWD/prometheus/#" compose/prometheus.yml >"$work/prometheus.yml"
    expect "compose/prometheus.yml: promtool, with the rules" promtool check config "$work/prometheus.yml"
  else
    skip "compose/prometheus.yml: promtool is not available on this machine"
  fi
}

composed() { python3 check/compose.py "$1" "$work/composed/deploy/compose"; }

badly_composed() {
  local mistake words
  while IFS='|' read -r mistake words; do
    sed "$mistake" compose/compose.yaml >"$work/compose.yaml"
    refused "$words" "$words" composed "$work/compose.yaml"
  done <<'MISTAKES'
s/stop_grace_period/stop_grace_perod/|extension key `stop_grace_perod`
s/restart: always/restart: alway/|unknown variant `alway`
/read_only: true/d|its root file system is writable
/cap_drop/d|it does not drop all capabilities
/no-new-privileges/d|it may gain privileges
s/streamfleet.toml:/other.toml:/|./other.toml does not exist
s#/rules.yaml:/#/rule.yaml:/#|../prometheus/rule.yaml does not exist
s/127.0.0.1:9090/9090/|is open to other machines
s/secrets: \[worker\]/secrets: [operator]/|secret `operator` (used in the `worker` service) is not defined
s/expose: \["9464"\]/expose: ["9465"]/|it listens on port 9464, which is not exposed
s#:/var/lib/grafana/dashboards:#:/dashboards:#|nothing is mounted at /var/lib/grafana/dashboards
s/image: redis:8.2-bookworm/image: redis:latest/|has no version
MISTAKES
}
