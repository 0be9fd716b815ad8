# shellcheck shell=bash
# Sourced by check.sh: checks the compose file and the files that it mounts, and that mistakes in them are detected.

compose() {
  patience compose/compose.yaml stop_grace_period 75 worker
  patience compose/compose.yaml stop_grace_period 10 console
  # The passwords are created in a copy of the files that it mounts.
  mkdir -p "$work/composed/deploy"
  cp -R compose redis docker prometheus "$work/composed/deploy"
  cp -R ../grafana "$work/composed"
  local folder=$work/composed/deploy/compose
  expect "redis/passwords.sh: passwords for compose" redis/passwords.sh "$folder/logins"
  accounts "$folder/logins"
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

# Creates the console's accounts. Without a program, a made-up hash takes the place of a real one.
accounts() {
  local program
  program=$(program)
  if [ -z "$program" ] || ! "$program" console --help >"$work/said" 2>&1; then
    program=$work/hashes
    printf '#!/bin/sh\ncat >/dev/null\necho "\$argon2id\$v=19\$m=19456,t=2,p=1\$c2FsdHNhbHQ\$aGFzaA"\n' >"$program"
    chmod +x "$program"
  fi
  expect "console/account.sh: a first account and the key of sessions" console/account.sh "$1" ann admin "$program"
  expect "console/account.sh: a second account" console/account.sh "$1" finance viewer "$program"
  refused "a second account of the same name" "has ann already" console/account.sh "$1" ann viewer "$program"
  refused "an account with an unknown role" "must be viewer, submitter, operator or admin" console/account.sh "$1" bob root "$program"
  refused "a name that is no key of TOML" "may have letters, digits" console/account.sh "$1" 'bob]' viewer "$program"
  refused "a program that makes no hash" "printed no hash" console/account.sh "$1" bob viewer true
  expect "console/account.sh: accounts with hashes, and a key of 64 digits" python3 - "$1" <<'PYTHON'
import pathlib, re, sys, tomllib

folder = pathlib.Path(sys.argv[1])
people = tomllib.loads((folder / "accounts.toml").read_text())["people"]
assert {name: each["role"] for name, each in people.items()} == {"ann": "admin", "finance": "viewer"}, people
assert all(each["password"].startswith("$argon2id$") for each in people.values()), people
assert re.fullmatch("[0-9a-f]{64}", (folder / "session-key").read_text())
assert folder.stat().st_mode & 0o777 == 0o700
PYTHON
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
s/127.0.0.1:9470:9470/9470:9470/|console: 9470:9470 is open to other machines
s/secrets: \[console, accounts.toml, session-key\]/secrets: [console, accounts.toml]/|console: it has no secret session-key
s/secrets: \[console, accounts.toml/secrets: [worker, accounts.toml/|console: it has no secret console
s/127.0.0.1:9470:9470/127.0.0.1:9470:80/|console: it listens on port 9470, which is not published
s/--probe, console/--probe, live/|console: its health check does not ask it
s#- ./console.toml:/#- ./consoles.toml:/#|./consoles.toml does not exist
MISTAKES
}
