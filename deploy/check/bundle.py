#!/usr/bin/env python3
"""Writes a configuration for runc that runs an image as a cluster would: not as root, only /tmp writable, no capabilities, no new privileges.

usage: bundle.py IMAGE.json CONFIG.json MOUNT... -- ARGUMENT...

IMAGE.json is the output of `buildah inspect --type image`. CONFIG.json is written for runc. A MOUNT is FROM:TO. The arguments replace
the image's command. The container uses the host's network, so that it can reach a server on the loopback address.
"""

import json
import sys

BIND = ["bind", "ro", "nosuid", "nodev"]
KEPT_FROM_VIEW = ["/proc/kcore", "/proc/keys", "/proc/sched_debug", "/sys/firmware"]


def mounts(given):
    system = [
        ("proc", "proc", "proc", ["nosuid", "noexec", "nodev"]),
        ("tmpfs", "tmpfs", "/dev", ["nosuid", "strictatime", "mode=755", "size=64k"]),
        ("sysfs", "sysfs", "/sys", ["nosuid", "noexec", "nodev", "ro"]),
        ("tmpfs", "tmpfs", "/tmp", ["nosuid", "nodev", "size=64m", "mode=1777"]),
    ]
    made = [{"type": kind, "source": source, "destination": to, "options": options} for kind, source, to, options in system]
    for mount in given:
        source, to = mount.rsplit(":", 1)
        made.append({"type": "bind", "source": source, "destination": to, "options": BIND})
    return made


def main(arguments):
    end = arguments.index("--")
    (inspected, written, *given), command = arguments[:end], arguments[end + 1 :]
    with open(inspected, encoding="utf-8") as file:
        image = json.load(file)["Docker"]["config"]
    uid, gid = (int(number) for number in image["User"].split(":"))
    nothing = {kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")}
    config = {
        "ociVersion": "1.0.2",
        "root": {"path": "rootfs", "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": uid, "gid": gid},
            "args": image["Entrypoint"] + (command or image["Cmd"]),
            "env": ["PATH=/usr/bin:/bin", *[each for each in image["Env"] if not each.startswith("PATH=")]],
            "cwd": "/",
            "capabilities": nothing,
            "noNewPrivileges": True,
        },
        "mounts": mounts(given),
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")],
            "maskedPaths": KEPT_FROM_VIEW,
            "readonlyPaths": ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"],
        },
    }
    with open(written, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)


if __name__ == "__main__":
    main(sys.argv[1:])
