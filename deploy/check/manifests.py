#!/usr/bin/env python3
"""Checks what a schema cannot check in rendered manifests: references between objects, restrictions on pods, and times.

usage: manifests.py RENDERED.yaml DOCS [--pinned]

DOCS is the folder of the documents that name the metrics.

Prints one line per problem, and exits with 1 if there is any. With --pinned, images must have digests, and the tree must contain no Secret.
"""

import pathlib
import re
import sys
import tomllib

import console
import yaml

# Created by hand or by another tool, not by this tree. The component redis-dev creates the first.
SECRETS_FROM_OUTSIDE = {"streamfleet-redis", "streamfleet-keda", "streamfleet-console", "streamfleet-console-tls"}
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
QUANTITY = re.compile(r"\d+(\.\d+)?(m|[kMGT]|[KMGT]i)?")
LANE = re.compile(r"[^{}]+:\{[a-z0-9._-]+\}:jobs(:high|:low)?")
SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
# Seconds that a stopping worker needs after drain_timeout, for cancelled handlers to end and for the last outcomes to be written.
BEYOND_DRAIN = 15


def walk(value, key):
    """Yields every value under `key`, at any depth."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == key:
                yield inner
            yield from walk(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner, key)


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", text).groups()
    return int(number) * SECONDS[unit]


class Manifests:
    """All objects of one rendered overlay, and what is wrong with them."""

    def __init__(self, text):
        self.objects = [each for each in yaml.safe_load_all(text) if each]
        self.problems = []
        self.place = ""

    def named(self, kind):
        return {each["metadata"]["name"]: each for each in self.objects if each["kind"] == kind}

    def demand(self, holds, problem):
        if not holds:
            self.problems.append(f"{self.place}: {problem}")

    def each(self, *kinds):
        for found in self.objects:
            if found["kind"] in kinds:
                self.place = f"{found['kind']} {found['metadata']['name']}"
                yield found

    def pods(self):
        for found in self.each("Deployment"):
            yield found, found["spec"]["template"]["spec"]

    def labels(self):
        return [each["spec"]["template"]["metadata"]["labels"] for each in self.named("Deployment").values()]

    def selects(self, selector):
        wanted = selector.items()
        return bool(wanted) and any(wanted <= labels.items() for labels in self.labels())

    def ports(self, selector=None):
        """Returns the names of the ports of all pods, or of those that are selected."""
        templates = [each["spec"]["template"] for each in self.named("Deployment").values()]
        chosen = [each for each in templates if (selector or {}).items() <= each["metadata"]["labels"].items()]
        return {port.get("name") for each in chosen for container in each["spec"]["containers"] for port in container["ports"]}

    # All objects.

    def forms(self):
        for found in self.objects:
            self.place = f"{found['kind']} {found['metadata']['name']}"
            self.demand(NAME.fullmatch(found["metadata"]["name"]), "its name is invalid")
            self.demand(found["kind"] == "Namespace" or found["metadata"].get("namespace"), "it has no namespace")
            for amounts in list(walk(found, "requests")) + list(walk(found, "limits")):
                for name, amount in amounts.items():
                    self.demand(QUANTITY.fullmatch(str(amount)), f"{name} is {amount}, which is not a valid quantity")
            for choice in walk(found, "whenUnsatisfiable"):
                self.demand(choice in ("ScheduleAnyway", "DoNotSchedule"), f"whenUnsatisfiable is {choice}, which is invalid")

    # The profile `restricted` of the Pod Security Standards, and a little more.

    def restriction(self):
        for _, pod in self.pods():
            context = pod.get("securityContext", {})
            self.demand(context.get("runAsNonRoot") is True and context.get("runAsUser"), "it may run as root")
            self.demand(context.get("seccompProfile") == {"type": "RuntimeDefault"}, "seccomp is not RuntimeDefault")
            self.demand(pod.get("automountServiceAccountToken") is False, "it mounts a token for the API server")
            self.demand(pod.get("enableServiceLinks") is False, "enableServiceLinks is not false")
            for shared in ("hostNetwork", "hostPID", "hostIPC"):
                self.demand(not pod.get(shared), f"it uses {shared}")
            self.demand(not any("hostPath" in volume for volume in pod["volumes"]), "it mounts a path of the host")
            for container in pod["containers"]:
                self.container(container)

    def container(self, container):
        own = container.get("securityContext", {})
        self.demand(own.get("allowPrivilegeEscalation") is False, "it may gain privileges")
        self.demand(own.get("readOnlyRootFilesystem") is True, "its root file system is writable")
        self.demand(own.get("capabilities") == {"drop": ["ALL"]}, "it does not drop all capabilities")
        self.demand(not own.get("privileged"), "it is privileged")
        self.demand("memory" in container["resources"].get("limits", {}), "it has no memory limit")
        self.demand({"cpu", "memory"} <= container["resources"].get("requests", {}).keys(), "it does not request both cpu and memory")
        self.demand(not container.get("envFrom"), "it uses envFrom")
        self.demand(not list(walk(container, "secretKeyRef")), "its environment contains a secret")

    def isolation(self):
        policies = [each["spec"] for each in self.named("NetworkPolicy").values()]
        for found, _ in self.pods():
            labels = found["spec"]["template"]["metadata"]["labels"].items()
            own = [each["policyTypes"] for each in policies if self.covers(each["podSelector"], labels)]
            self.demand(any("Ingress" in types for types in own), "every pod of the cluster may connect to it")

    @staticmethod
    def covers(selector, labels):
        """Whether a selector surely selects pods with these labels. What an expression selects is not known here."""
        return "matchExpressions" not in selector and selector.get("matchLabels", {}).items() <= labels

    # References between objects.

    def references(self):
        known = {"configMap": set(self.named("ConfigMap")), "secret": set(self.named("Secret")) | SECRETS_FROM_OUTSIDE}
        accounts = set(self.named("ServiceAccount")) | {"default"}
        for found, pod in list(self.pods()):
            self.place = f"Deployment {found['metadata']['name']}"
            labels = found["spec"]["template"]["metadata"]["labels"].items()
            self.demand(found["spec"]["selector"]["matchLabels"].items() <= labels, "its selector does not match its own pods")
            self.demand(pod.get("serviceAccountName", "default") in accounts, "its service account does not exist")
            for spread in pod.get("topologySpreadConstraints", []):
                self.demand(spread["labelSelector"]["matchLabels"].items() <= labels, "a spread constraint does not select its own pods")
            for volume in pod["volumes"]:
                config, secret = volume.get("configMap", {}).get("name"), volume.get("secret", {}).get("secretName")
                self.demand(not config or config in known["configMap"], f"there is no ConfigMap {config}")
                self.demand(not secret or secret in known["secret"], f"there is no Secret {secret}")
            volumes = {volume["name"] for volume in pod["volumes"]}
            for container in pod["containers"]:
                mounted = {mount["name"] for mount in container["volumeMounts"]}
                self.demand(mounted <= volumes, f"there is no volume {', '.join(mounted - volumes)}")
                self.demand(volumes <= mounted, f"nothing mounts {', '.join(volumes - mounted)}")
        self.selectors()

    def selectors(self):
        ports = self.ports()
        for found in self.each("PodDisruptionBudget", "PodMonitor"):
            self.demand(self.selects(found["spec"]["selector"]["matchLabels"]), "it selects no pods")
        for found in self.each("Service"):
            self.demand(self.selects(found["spec"]["selector"]), "it selects no pods")
            have = self.ports(found["spec"]["selector"])
            for port in found["spec"]["ports"]:
                self.demand(port["targetPort"] in have, f"its pods have no port {port['targetPort']}")
        for found in self.each("Ingress"):
            for each in found["spec"].get("tls", []):
                self.demand(each["secretName"] in SECRETS_FROM_OUTSIDE, f"there is no Secret {each['secretName']}")
        for found in self.each("NetworkPolicy"):
            self.demand(self.selects(found["spec"]["podSelector"]["matchLabels"]), "it selects no pods")
            for peer in (peer for rule in found["spec"].get("egress", []) for peer in rule.get("to", [])):
                aim = peer.get("podSelector", {}).get("matchLabels", {})
                self.demand(aim.get("app.kubernetes.io/name") != "streamfleet", "it lets workers connect only to workers")
        for found in self.each("NetworkPolicy", "PodMonitor", "Service", "Deployment"):
            used = list(walk(found["spec"], "port")) + list(walk(found["spec"], "targetPort"))
            for port in used:
                self.demand(isinstance(port, int) or port in ports, f"there is no port {port}")

    # The worker and its configuration.

    def worker(self):
        self.place = "the tree"
        configs = [each["data"]["streamfleet.toml"] for each in self.named("ConfigMap").values() if "streamfleet.toml" in each["data"]]
        self.demand(len(configs) == 1, "it must contain exactly one streamfleet.toml")
        found = self.named("Deployment").get("streamfleet-worker")
        self.demand(found, "it has no Deployment streamfleet-worker")
        if not found or not configs:
            return
        self.place = "Deployment streamfleet-worker"
        config, pod = tomllib.loads(configs[0]), found["spec"]["template"]["spec"]
        drain = seconds(config["worker"]["drain_timeout"])
        grace = pod.get("terminationGracePeriodSeconds", 30)
        self.demand(grace >= drain + BEYOND_DRAIN, f"a grace period of {grace} s is too short for a drain_timeout of {drain:g} s")
        self.telemetry(config, pod["containers"][0])
        self.secrets(config["redis"], pod)

    def telemetry(self, config, container):
        listen = config["telemetry"]["listen"]
        port = {each["name"]: each["containerPort"] for each in container["ports"]}.get("telemetry")
        self.demand(listen == f"0.0.0.0:{port}", f"it listens on {listen}, but its port is {port}")
        for probe, path in (("startupProbe", "/startupz"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
            asked = container.get(probe, {}).get("httpGet", {})
            self.demand(asked == {"path": path, "port": "telemetry"}, f"its {probe} does not request {path}")

    def secrets(self, redis, pod):
        self.demand(not {"url", "password"} & redis.keys(), "the address of Redis must be in a Secret")
        files = self.secret_files(pod)
        for key in ("url_file", "password_file"):
            self.demand(redis.get(key) in files, f"no secret is mounted at the path in redis.{key}: {redis.get(key)}")

    def secret_files(self, pod):
        """Returns the paths at which the first container finds secrets."""
        keys = {volume["name"]: [item["path"] for item in volume["secret"]["items"]] for volume in pod["volumes"] if "secret" in volume}
        mounts = pod["containers"][0]["volumeMounts"]
        return {f"{mount['mountPath']}/{key}" for mount in mounts for key in keys.get(mount["name"], [])}

    # Autoscaling.

    def scaling(self):
        workloads, logins = self.named("Deployment"), self.named("TriggerAuthentication")
        for found in list(self.each("ScaledObject", "HorizontalPodAutoscaler")):
            self.place = f"{found['kind']} {found['metadata']['name']}"
            spec = found["spec"]
            target = workloads.get(spec["scaleTargetRef"]["name"])
            self.demand(target, "its scale target does not exist")
            self.demand(not target or "replicas" not in target["spec"], "its scale target also sets replicas")
            self.demand(spec.get("minReplicaCount", spec.get("minReplicas", 0)) >= 1, "without a worker, delayed jobs are not promoted")
            for trigger in spec.get("triggers", []):
                self.trigger(trigger)
                login = trigger.get("authenticationRef", {}).get("name")
                self.demand(not login or login in logins, f"there is no TriggerAuthentication {login}")
        for found in self.each("TriggerAuthentication"):
            known = set(self.named("Secret")) | SECRETS_FROM_OUTSIDE
            self.demand({each["name"] for each in found["spec"]["secretTargetRef"]} <= known, "its Secret does not exist")

    def trigger(self, trigger):
        facts = trigger["metadata"]
        if trigger["type"] == "redis-streams":
            self.demand(LANE.fullmatch(facts["stream"]), f"{facts['stream']} is not a lane")
            self.demand("streamLength" in facts, "it does not count streamLength")
            self.demand(not {"consumerGroup", "lagCount", "pendingEntriesCount"} & facts.keys(), "lag does not include running jobs")
        elif trigger["type"] == "prometheus":
            self.demand(facts.get("ignoreNullValues") == "false", "a lost target would look like an empty queue")
        elif trigger["type"] == "metrics-api":
            self.answers(facts)
        else:
            self.demand(False, f"trigger type {trigger['type']} is not supported")

    def answers(self, facts):
        """Checks that the URL names a Service of the workers, that they serve its path, and that KEDA may connect to them."""
        host, port, path = re.fullmatch(r"http://([^/:]+):(\d+)(/.*)", facts["url"]).groups()
        found = self.named("Service").get(host.split(".")[0])
        here = found and [found["metadata"]["name"], found["metadata"]["namespace"]]
        self.demand(here == host.split(".")[:2], f"there is no Service {host}")
        self.demand(found and int(port) in [each["port"] for each in found["spec"]["ports"]], f"{host} has no port {port}")
        self.demand(path == "/scale" or path.startswith("/scale?queue="), f"workers do not serve {path}")
        self.demand(facts.get("valueLocation") == "jobs", f"the answer has no field {facts.get('valueLocation')}")
        let_in = [rule["from"] for each in self.named("NetworkPolicy").values() for rule in each["spec"].get("ingress", [])]
        self.demand("keda" in list(walk(let_in, "kubernetes.io/metadata.name")), "no NetworkPolicy admits KEDA")

    def metrics(self, documented):
        for found in self.each("ScaledObject", "HorizontalPodAutoscaler"):
            for name in re.findall(r"streamfleet_[a-z_]+", yaml.safe_dump(found)):
                self.demand(f"`{name}`" in documented, f"there is no metric {name}")

    def pinned(self):
        self.place = "the tree"
        self.demand(not self.named("Secret"), "it contains a Secret")
        for _, pod in self.pods():
            for container in pod["containers"]:
                image = container["image"]
                self.demand(re.search(r"@sha256:[0-9a-f]{64}$", image), f"{image} has no digest")


def main(arguments):
    pinned = "--pinned" in arguments
    rendered, docs = [each for each in arguments if each != "--pinned"]
    with open(rendered, encoding="utf-8") as file:
        manifests = Manifests(file.read())
    manifests.forms()
    manifests.restriction()
    manifests.isolation()
    manifests.references()
    manifests.worker()
    console.judge(manifests)
    manifests.scaling()
    manifests.metrics("".join(document.read_text(encoding="utf-8") for document in pathlib.Path(docs).glob("*.md")))
    if pinned:
        manifests.pinned()
    for problem in manifests.problems:
        print(problem)
    return 1 if manifests.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
