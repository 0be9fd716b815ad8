"""python3 -m proof PROGRAM REDIS-SERVER ALERTMANAGER: checks the dashboards and rules with real servers and a real fleet.

Prints one line per check. If ALERTMANAGER is "", notifications are not checked. The exit code is 1 if a check fails.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

from . import alertmanager, judge, runbooks
from .catalogue import Catalogue
from .fleet import Fleet
from .process import Programs, Wrong, free_ports, until
from .prometheus import Prometheus

ROOT = pathlib.Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy/prometheus"
LOADED = 30

# Lines that a runbook must not contain, and what is wrong with them.
REFUSED_COMMANDS = {
    "streamfleet queue QUEUE": "there is no command queue",
    "streamfleet queues purged QUEUE": "there is no command queues purged",
    "streamfleet gates QUEUE": "there is no command gates QUEUE",
    "streamfleet steps ID --all": "there is no option --all",
}


class Lines:
    """Prints the results, and counts the checks that failed."""

    def __init__(self):
        self.wrong = 0

    def judge(self, what, complaints):
        """Passes if there are no complaints."""
        complaints = list(complaints)
        print(f"FAIL  {what}" if complaints else f"ok    {what}", flush=True)
        for each in complaints[:40]:
            print(f"      {each}", flush=True)
        self.wrong += bool(complaints)

    def refused(self, what, words, complaints):
        """Passes if a complaint contains these words."""
        complaints = list(complaints)
        if any(words in each for each in complaints):
            self.judge(f"refused: {what}", [])
        else:
            self.judge(f"accepted: {what}", [f"no complaint contains: {words}", *complaints])


def dashboards():
    """Returns the dashboards in the folder, by file name."""
    return {path.name: json.loads(path.read_text()) for path in sorted((ROOT / "grafana/dashboards").glob("*.json"))}


def copy_without(dashboard, key):
    """Returns a copy whose first panel lacks `key`."""
    copy = json.loads(json.dumps(dashboard))
    first = judge.panels(copy)[0]
    (first["fieldConfig"]["defaults"] if key == "unit" else first).pop(key)
    return copy


def shapes(lines, all_dashboards, catalogue):
    """Runs the checks that need no data."""
    lines.judge("dashboards: as grafana/dashboards.py generates them", drift())
    for name, dashboard in all_dashboards.items():
        lines.judge(f"{name}: titles, units, descriptions, positions, rates", judge.shape(dashboard))
        lines.judge(f"{name}: metrics, labels and the use of max match the catalogue", judge.foreign(catalogue, dashboard))
    uids = [dashboard["uid"] for dashboard in all_dashboards.values()]
    lines.judge("dashboards: each has its own uid", [] if len(set(uids)) == len(uids) else uids)
    fleet = all_dashboards["fleet.json"]
    for key in ("unit", "title", "description"):
        lines.refused(f"a panel without a {key}", f"it has no {key}", judge.shape(copy_without(fleet, key)))
    copy = json.loads(json.dumps(fleet).replace("$__rate_interval", "5m"))
    lines.refused("a rate over a fixed time", "a rate over 5m", judge.shape(copy))
    copy = json.loads(json.dumps(fleet).replace("max by (namespace, queue, state)", "sum by (namespace, queue, state)"))
    lines.refused("a sum of what only the leader reports", "not queried as a maximum", judge.foreign(catalogue, copy))
    copy = json.loads(json.dumps(fleet).replace("succeeded|dead", "succeded|dead"))
    lines.refused("a value that a label never has", "outcome is never succeded", judge.foreign(catalogue, copy))


def drift():
    """Returns why the folder differs from what grafana/dashboards.py generates, or nothing."""
    done = subprocess.run([sys.executable, ROOT / "grafana/dashboards.py", "--check"], capture_output=True, text=True, check=False)
    return done.stderr.splitlines()[-1:]


def answers(lines, all_dashboards, cluster, bare):
    """Runs the checks that need data."""
    for name, dashboard in all_dashboards.items():
        asked = [target for panel in judge.panels(dashboard) for target in panel["targets"]]
        variables = [each for each in dashboard["templating"]["list"] if each["type"] == "query"]
        what = f"{name}: {len(asked)} queries and {len(variables)} variables"
        lines.judge(f"{what} return data, in Kubernetes", [*judge.answered(cluster, dashboard, LOADED), *judge.variables(cluster, dashboard)])
        without = [*judge.answered(bare, dashboard, LOADED), *judge.variables(bare, dashboard, absent=["namespace"])]
        lines.judge(f"{what} return data, without namespaces", without)
    renamed = json.loads(json.dumps(all_dashboards["fleet.json"]).replace("streamfleet_jobs_running", "streamfleet_jobs_runing"))
    lines.refused("an unknown metric", "no series: streamfleet_jobs_runing", judge.answered(cluster, renamed, LOADED))


def alerts(lines, catalogue, cluster, program):
    """Checks the rules, and the runbooks that they link to."""
    groups = cluster.ask("rules")["groups"]
    every = runbooks.alerts(groups)
    lines.judge("rules: metrics, labels and the use of max match the catalogue", judge.foreign_rules(catalogue, groups))
    lines.judge("rules: every series and every label value that they name exists", judge.rules(cluster, groups))
    lines.judge(f"alerts: {len(every)}, each with a severity, a summary, a description and a page", runbooks.words(every))
    lines.judge("runbooks: a page per alert, an alert per page", runbooks.pages(every, ROOT))
    lines.judge("runbooks: every streamfleet command and option exists", runbooks.commands(program, ROOT))
    for line, words in REFUSED_COMMANDS.items():
        lines.refused(f"a runbook with `{line}`", words, runbooks.command(program, line.split(), {}))
    # This machine may be so busy that leases are really lost.
    firing = cluster.ask("query", query='ALERTS{alertstate="firing",alertname!="StreamfleetLeasesLost"}')["result"]
    found = sorted(each["metric"]["alertname"] for each in firing)
    what = "alerts: none fires for a healthy fleet, except that a queue with a limit drops dead letters"
    lines.judge(what, [] if found == ["StreamfleetDeadLettersEvicted"] else [f"firing: {', '.join(found) or 'none'}"])


def notified(lines, fleet, listener, called):
    """Follows an incident from Redis through a worker, Prometheus and Alertmanager to the person on call."""
    lines.judge("alertmanager: mutes the alerts that a worse one explains, and no others", alertmanager.muted(called))
    alert, queues = "StreamfleetGroupRecreated", ["default", "mail"]
    for queue in queues:
        fleet.redis("XGROUP", "DESTROY", f"sf:{{{queue}}}:jobs", "fleet")
    until(f"notification of {alert}", lambda: any(post["commonLabels"].get("alertname") == alert for _, post in list(listener.posts)))
    lines.judge("alertmanager: one notification about vanished groups, for both queues", alertmanager.notified(listener, alert, queues))


def noticed(lines, fleet, cluster):
    """Checks that Prometheus notices incidents with the unmodified rules: their alerts become pending. We do not wait for their `for`."""

    def pending(alert):
        wanted = f'ALERTS{{alertname="{alert}",alertstate=~"pending|firing"}}'
        return cluster.ask("query", query=wanted)["result"]

    with fleet.without_redis():
        until("StreamfleetRedisUnreachable", lambda: pending("StreamfleetRedisUnreachable"))
    until("end of StreamfleetRedisUnreachable", lambda: not pending("StreamfleetRedisUnreachable"))
    lines.judge("alerts: detect that Redis does not answer, and that it answers again", [])
    fleet.stop_workers()
    for alert in ("StreamfleetNoWorker", "StreamfleetQueueAbandoned", "StreamfleetTargetDown"):
        until(alert, lambda alert=alert: pending(alert))
    lines.judge("alerts: detect queues with jobs but no workers, although their metrics disappeared with the workers", [])


def metrics_checked(text):
    """Returns what promtool reports about a worker's metrics."""
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).splitlines() if done.returncode else []


def prove(lines, program, redis_server, alertmanager_program, folder):
    """Starts everything, runs all checks, and stops everything."""
    all_dashboards, catalogue = dashboards(), Catalogue(program)
    shapes(lines, all_dashboards, catalogue)
    listener = alertmanager.Listener()
    with Programs(folder) as programs:
        try:
            with Fleet(programs, program, redis_server) as fleet:
                ports = free_ports(3)
                targets = [f"127.0.0.1:{port}" for port in fleet.worker_ports]
                called = None
                if alertmanager_program:
                    called = alertmanager.start(programs, alertmanager_program, ports[2], PROMETHEUS / "alertmanager.yml", listener)
                rules = PROMETHEUS / "rules.yaml"
                cluster = Prometheus(programs, "cluster", ports[0], targets, {"namespace": "prod"}, rules, called)
                bare = Prometheus(programs, "bare", ports[1], targets)
                begun = time.monotonic()
                until("load", lambda: time.monotonic() - begun > LOADED / 3)
                fleet.kill_the_leader()
                fleet.replay()
                # A leader enforces retention at once, and then twice a minute. At first, it cannot: there is no archive.
                failed = "streamfleet_dead_archive_failures_total > 0"
                until("failure of the archive", lambda: cluster.instant(failed) and bare.instant(failed), seconds=60)
                fleet.make_archive()
                until("load", lambda: time.monotonic() - begun > LOADED)
                dropped = "streamfleet_dead_jobs_evicted_total > 0"
                until("retention", lambda: cluster.instant(dropped) and bare.instant(dropped), seconds=60)
                for number in range(len(targets)):
                    lines.judge(f"worker {number + 1}: promtool check metrics", metrics_checked(fleet.metrics(number)))
                answers(lines, all_dashboards, cluster, bare)
                alerts(lines, catalogue, cluster, program)
                if called:
                    notified(lines, fleet, listener, called)
                noticed(lines, fleet, cluster)
        except Wrong as wrong:
            lines.judge("the fleet and the servers that watch it", [str(wrong), *programs.words()])


def main():
    lines = Lines()
    program, redis_server, alertmanager_program = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        prove(lines, pathlib.Path(program).resolve(), redis_server, alertmanager_program, folder)
    sys.exit(bool(lines.wrong))


if __name__ == "__main__":
    main()
