#!/usr/bin/env python3
"""Checks that compose.yaml follows the Compose Specification, that each service is confined, that mounted files exist, and that ports
and paths match.

usage: compose.py COMPOSE.yaml FOLDER

FOLDER is the folder of the file, with the passwords already created. Prints one line per problem, and exits with 1 if there is any.
"""

import os
import re
import sys
import tomllib

import yaml
from compose_spec import PyCompose

BOUNDS = {
    "read_only": (True, "its root file system is writable"),
    "cap_drop": (["ALL"], "it does not drop all capabilities"),
    "security_opt": (["no-new-privileges:true"], "it may gain privileges"),
    "restart": ("always", "it is not restarted when it ends"),
}


class Composition:
    def __init__(self, text, folder):
        self.all = yaml.safe_load(text)
        self.services = self.all["services"]
        self.folder = folder
        self.problems = []

    def demand(self, holds, problem):
        if not holds:
            self.problems.append(problem)

    def text(self, path):
        with open(os.path.join(self.folder, path), encoding="utf-8") as file:
            return file.read()

    def bounds(self):
        for name, service in self.services.items():
            for key, (want, problem) in BOUNDS.items():
                self.demand(service.get(key) == want, f"{name}: {problem}")
            tag = service["image"].rpartition(":")[2]
            self.demand(re.search(r"\d", tag) or "build" in service, f"{name}: {service['image']} has no version")
            for port in service.get("ports", []):
                self.demand(port.startswith("127.0.0.1:"), f"{name}: {port} is open to other machines")
            self.demand(name != "redis" or not service.get("ports"), "redis: it publishes a port on the host")

    def files(self):
        paths = [secret["file"] for secret in self.all["secrets"].values()]
        for name, service in self.services.items():
            if "build" in service:
                paths.append(os.path.join(service["build"]["context"], service["build"]["dockerfile"]))
            for mount in service.get("volumes", []):
                source = mount.split(":")[0]
                if source in self.all["volumes"]:
                    continue
                paths.append(source)
                self.demand(mount.endswith(":ro"), f"{name}: {source} is mounted writable")
        for path in paths:
            self.demand(os.path.exists(os.path.join(self.folder, path)), f"{path} does not exist")

    def source(self, service, target):
        """Returns the path that is mounted at `target`, or None."""
        for mount in self.services[service].get("volumes", []):
            if mount.split(":")[1] == target:
                return mount.split(":")[0]
        self.problems.append(f"{service}: nothing is mounted at {target}")
        return None

    def worker(self):
        path = self.source("worker", self.services["worker"]["command"][2])
        if not path or not os.path.exists(os.path.join(self.folder, path)):
            return
        config = tomllib.loads(self.text(path))
        secret = config["redis"]["password_file"].removeprefix("/run/secrets/")
        self.demand(secret in self.services["worker"].get("secrets", []), f"worker: it has no secret {secret}")
        listen = config["telemetry"]["listen"].rpartition(":")[2]
        self.demand(listen in self.services["worker"]["expose"], f"worker: it listens on port {listen}, which is not exposed")
        scraped = yaml.safe_load(self.text("prometheus.yml"))["scrape_configs"][0]["dns_sd_configs"][0]
        self.demand(scraped["names"] == ["worker"] and str(scraped["port"]) == listen, "prometheus: it does not scrape the workers")

    def console(self):
        """Checks that the console finds its files and its secrets, and that its port is the one that it listens on."""
        service = self.services["console"]
        self.demand(service["command"][0] == "console", "console: it does not run the console")
        values = {}
        for flag, target in zip(service["command"], service["command"][1:], strict=False):
            path = self.source("console", target) if flag == "--config" else None
            if path and os.path.exists(os.path.join(self.folder, path)):
                for section, inner in tomllib.loads(self.text(path)).items():
                    values.setdefault(section, {}).update(inner)
        for section, key in (("redis", "password_file"), ("console", "accounts_file"), ("console", "session_key_file")):
            secret = str(values.get(section, {}).get(key)).removeprefix("/run/secrets/")
            self.demand(secret in service.get("secrets", []), f"console: it has no secret {secret}")
        self.demand("worker" not in service["secrets"], "console: it has the workers' login to Redis")
        port = str(values.get("console", {}).get("listen")).rpartition(":")[2]
        self.demand(service["ports"] == [f"127.0.0.1:{port}:{port}"], f"console: it listens on port {port}, which is not published")
        asked = ["CMD", "/usr/bin/streamfleet", "healthcheck", "--probe", "console", "--address", f"127.0.0.1:{port}"]
        self.demand(service.get("healthcheck", {}).get("test") == asked, "console: its health check does not ask it")
        self.demand(service["image"] == self.services["worker"]["image"], "console: its image is not that of the workers")

    def grafana(self):
        self.source("redis", self.services["redis"]["command"][1])
        provisioning = self.source("grafana", "/etc/grafana/provisioning")
        if not provisioning or not os.path.exists(os.path.join(self.folder, provisioning)):
            return
        for provider in yaml.safe_load(self.text(f"{provisioning}/dashboards/streamfleet.yaml"))["providers"]:
            self.source("grafana", provider["options"]["path"])
        for data in yaml.safe_load(self.text(f"{provisioning}/datasources/prometheus.yaml"))["datasources"]:
            host = data["url"].removeprefix("http://").split(":")[0]
            self.demand(host in self.services, f"grafana: there is no service {host}")


def main(path, folder):
    with open(path, encoding="utf-8") as file:
        composition = Composition(file.read(), folder)
    try:
        PyCompose.from_yaml(yaml.safe_dump(composition.all)).validate()
    except ValueError as wrong:
        print(wrong)
        return 1
    composition.bounds()
    composition.files()
    composition.worker()
    composition.console()
    composition.grafana()
    for problem in composition.problems:
        print(problem)
    return 1 if composition.problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
