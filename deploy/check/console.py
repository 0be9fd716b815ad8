"""Checks the console's part of rendered manifests: its configuration, its secrets, its probes, and who can reach it."""

import tomllib
from urllib.parse import urlsplit

NAME = "streamfleet-console"
# Seconds that a stopping console gives the requests in progress, and that it needs to end after them.
DRAIN, BEYOND_DRAIN = 5, 5
# A console that cannot reach Redis is not ready, but a restart does not help it. It refuses hosts that it does not know, such as a pod's address.
LOGIN = {"path": "/login", "port": "http", "httpHeaders": [{"name": "Host", "value": "localhost"}]}
PROBES = {"startupProbe": LOGIN, "livenessProbe": LOGIN, "readinessProbe": {"path": "/healthz", "port": "http"}}
# The paths that the configuration must name, under the section of each.
SECRET_FILES = {"redis": ("url_file", "password_file"), "console": ("accounts_file", "session_key_file")}


def judge(manifests):
    """Adds what is wrong to `manifests`. A tree without a console has nothing wrong, unless an Ingress leads to one."""
    found = manifests.named("Deployment").get(NAME)
    ingress = manifests.named("Ingress").get(NAME)
    manifests.place = f"Deployment {NAME}"
    manifests.demand(found or not ingress, "an Ingress leads to it, but it does not exist")
    if not found:
        return
    pod = found["spec"]["template"]["spec"]
    config = configured(manifests, pod)
    if config:
        listens(manifests, config, pod["containers"][0])
        secrets(manifests, config, pod)
    stops(manifests, pod)
    reached(manifests, config, ingress)


def configured(manifests, pod):
    """Returns the values that the console reads from its files. A later file replaces values of an earlier one."""
    container = pod["containers"][0]
    arguments = container["args"]
    files = [path for flag, path in zip(arguments, arguments[1:], strict=False) if flag == "--config"]
    manifests.demand(arguments[0] == "console" and len(files) == 2, "it does not run `console` with the workers' file and its own")
    values = {}
    for path in files:
        text = mounted(manifests, pod, path)
        manifests.demand(text is not None, f"no ConfigMap has {path}")
        for section, inner in tomllib.loads(text or "").items():
            values.setdefault(section, {}).update(inner)
    return values


def mounted(manifests, pod, path):
    """Returns the text that a ConfigMap mounts at `path`, or None."""
    folder, _, key = path.rpartition("/")
    names = {volume["name"]: volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume}
    for mount in pod["containers"][0]["volumeMounts"]:
        if mount["mountPath"] == folder and mount["name"] in names:
            return manifests.named("ConfigMap").get(names[mount["name"]], {}).get("data", {}).get(key)
    return None


def listens(manifests, config, container):
    listen = config.get("console", {}).get("listen")
    port = {each["name"]: each["containerPort"] for each in container["ports"]}.get("http")
    manifests.demand(listen == f"0.0.0.0:{port}", f"it listens on {listen}, but its port is {port}")
    for probe, wanted in PROBES.items():
        asked = container.get(probe, {}).get("httpGet", {})
        manifests.demand(asked == wanted, f"its {probe} does not request {wanted['path']} as it should")


def secrets(manifests, config, pod):
    manifests.demand(not {"url", "password"} & config.get("redis", {}).keys(), "the address of Redis must be in a Secret")
    files = manifests.secret_files(pod)
    for section, keys in SECRET_FILES.items():
        for key in keys:
            path = config.get(section, {}).get(key)
            manifests.demand(path in files, f"no secret is mounted at the path in {section}.{key}: {path}")
    for volume in pod["volumes"]:
        if "secret" in volume:
            mode = volume["secret"].get("defaultMode", 0o644)
            manifests.demand(mode & 0o007 == 0, "every user of the container may read its secrets")
    # A Secret that is mounted as a single file never changes, so new accounts would need a restart.
    mounts = pod["containers"][0]["volumeMounts"]
    manifests.demand(not any("subPath" in mount for mount in mounts), "it mounts with subPath, so it would not see new accounts")
    own = [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]
    manifests.demand("streamfleet-redis" not in own, "it uses the workers' login to Redis")


def stops(manifests, pod):
    pause = pod["containers"][0].get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    grace = pod.get("terminationGracePeriodSeconds", 30)
    manifests.demand(pause > 0, "it stops at once, while its Service still sends requests")
    manifests.demand(grace >= pause + DRAIN + BEYOND_DRAIN, f"a grace period of {grace} s is too short for a pause of {pause} s")


def reached(manifests, config, ingress):
    """Checks who may connect, and that the Ingress, the Service and `public_url` agree."""
    manifests.place = f"Service {NAME}"
    service = manifests.named("Service").get(NAME)
    manifests.demand(service, "it does not exist")
    manifests.demand(not service or service["spec"].get("type", "ClusterIP") == "ClusterIP", "it is open to other machines")
    manifests.place = f"NetworkPolicy {NAME}"
    policy = manifests.named("NetworkPolicy").get(NAME)
    manifests.demand(policy, "it does not exist")
    if not policy:
        return
    manifests.demand({"Ingress", "Egress"} <= set(policy["spec"]["policyTypes"]), "it does not restrict both directions")
    rules = policy["spec"].get("ingress") or []
    # A rule without `from`, or with an empty peer, admits everybody.
    manifests.demand(all(rule.get("from") and all(rule["from"]) for rule in rules), "it lets everybody in")
    for rule in rules:
        ports = [each.get("port") for each in rule.get("ports", [])]
        manifests.demand(ports == ["http"], "it opens other ports than http")
    if ingress:
        manifests.demand(rules, "it does not admit the ingress controller")
        published(manifests, config, ingress["spec"])


def published(manifests, config, spec):
    manifests.place = f"Ingress {NAME}"
    url = urlsplit(config.get("console", {}).get("public_url", ""))
    hosts = {rule.get("host") for rule in spec["rules"]}
    manifests.demand(hosts == {url.hostname}, f"console.public_url is {url.geturl() or 'not set'}, but its hosts are {sorted(map(str, hosts))}")
    manifests.demand(url.scheme == "https", "console.public_url does not begin with https")
    certified = {host for each in spec.get("tls", []) for host in each["hosts"]}
    manifests.demand(hosts <= certified, "a host has no certificate")
    for rule in spec["rules"]:
        for path in rule["http"]["paths"]:
            leads_to_it(manifests, path["backend"]["service"])
    proxy = config.get("console", {}).get("proxy", {})
    manifests.demand(proxy.get("from"), "without console.proxy.from, all clients share the address of the ingress controller, and so their limits")


def leads_to_it(manifests, backend):
    service = manifests.named("Service").get(backend["name"])
    manifests.demand(service, f"there is no Service {backend['name']}")
    ports = {each.get("name") for each in service["spec"]["ports"]} if service else set()
    manifests.demand(backend["port"].get("name") in ports, f"Service {backend['name']} has no port {backend['port']}")
