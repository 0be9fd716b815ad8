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
    composition.grafana()
    for problem in composition.problems:
        print(problem)
    return 1 if composition.problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
