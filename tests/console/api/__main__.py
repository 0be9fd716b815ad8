"""python3 -m api PROGRAM REDIS-SERVER SPECTRAL: checks the description of the console's API, and uses the API through a client that is
generated from it.

Starts the real program, its console and a private Redis. Prints one line per check. The exit code is 1 if a check fails.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

from proof.process import Programs, Wrong
from stage.fleet import Stage
from stage.lines import Lines

from . import flows
from .client import PACKAGE, Api
from .document import Document

HERE = pathlib.Path(__file__).parent


def said(command):
    """Runs a command. Returns its output as lines if it fails, or nothing."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600, check=False)
    return (done.stdout + done.stderr).splitlines() if done.returncode else []


def fetched(stage):
    """Returns the description, as the console sends it."""
    request = urllib.request.Request(f"{stage.url}/api/v1/openapi.json", headers={"authorization": f"Bearer {stage.tokens['viewer']}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def linted(spectral, path):
    """Returns what the linter reports about a description."""
    return said([spectral, "lint", "--ruleset", HERE / "spectral.yaml", "--fail-severity", "warn", "--quiet", path])


def described(lines, document, path, spectral):
    """Checks the description itself, and that the checks find mistakes in copies of it."""
    count = sum(1 for _ in document.operations())
    lines.judge(f"openapi.json: {count} operations, valid OpenAPI 3.1", document.invalid())
    lines.judge("openapi.json: has every operation, each with a name of its own", document.lacking())
    lines.judge("openapi.json: spectral", linted(spectral, path))
    for what, words, schema in [
        ("a reference to nothing", "PointerToNowhere", {"$ref": "#/components/schemas/Nothing"}),
        ("a type that does not exist", "is not valid under any of the given schemas", {"type": "strange"}),
    ]:
        copy = json.loads(json.dumps(document.content))
        _, _, operation = next(iter(Document(copy).operations()))
        operation["responses"]["200"] = {"description": "spoiled", "content": {"application/json": {"schema": schema}}}
        lines.refused(what, words, complaints_of(Document(copy)))
    copy = json.loads(json.dumps(document.content))
    next(iter(Document(copy).operations()))[2].pop("summary", None)
    spoiled = path.with_name("spoiled.json")
    spoiled.write_text(json.dumps(copy))
    lines.refused("an operation without a summary", "operation-summary", linted(spectral, spoiled))


def complaints_of(document):
    """Returns what is invalid, also if the validator gives up."""
    try:
        return list(document.invalid())
    except Exception as gave_up:  # The validator raises its own errors and those of the packages that it uses.
        return [f"{type(gave_up).__name__}: {gave_up}"]


def generated(lines, path, folder):
    """Generates the client, and returns whether that worked."""
    command = ["openapi-python-client", "generate", "--path", path, "--output-path", folder / PACKAGE, "--meta", "none"]
    complaints = said([*command, "--config", HERE / "generator.json", "--fail-on-warning"])
    sys.path.insert(0, str(folder))
    return lines.judge("openapi-python-client: generates a client, without a warning", complaints)


def used(lines, stage, document):
    """Uses the generated client."""
    api, viewer, stranger = (Api(document, stage.url, token) for token in (stage.tokens["admin"], stage.tokens["viewer"], None))
    for flow, arguments in [
        (flows.submits, (api,)),
        (flows.finds, (api,)),
        (flows.reads, (api,)),
        (flows.measures, (api,)),
        (flows.alerts, (api, viewer, stage)),
        (flows.changes, (api,)),
        (flows.replays, (api, stage)),
        (flows.refuses, (api, viewer, stranger)),
        (flows.streams, (api,)),
    ]:
        lines.judge(flow.__doc__.strip(), carefully(flow, arguments))
    lines.judge("every answer is as described, and the generated client can read it", api.complaints + viewer.complaints + stranger.complaints)
    lines.judge("Redis refused nothing to the login of the console", stage.refusals())


def carefully(flow, arguments):
    """Yields what is wrong, also if an answer has another shape than the check expects."""
    try:
        yield from flow(*arguments)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, StopIteration) as wrong:
        yield f"{type(wrong).__name__}: {wrong}, at line {wrong.__traceback__.tb_next.tb_lineno} of flows.py"


def check(lines, program, server, spectral, folder):
    with Programs(folder) as programs:
        try:
            stage = Stage(programs, program, server)
            stage.fill()
            stage.twist()
            document = Document(fetched(stage))
            path = pathlib.Path(folder) / "openapi.json"
            path.write_text(json.dumps(document.content, indent=1))
            described(lines, document, path, spectral)
            if generated(lines, path, pathlib.Path(folder) / "generated"):
                used(lines, stage, document)
        except (Wrong, OSError) as wrong:
            lines.judge("the fleet and its console", [str(wrong), *programs.words()])


def main(program, server, spectral):
    lines = Lines()
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "generated").mkdir()
        check(lines, pathlib.Path(program).resolve(), server, spectral, folder)
    sys.exit(lines.account("api"))


if __name__ == "__main__":
    main(*sys.argv[1:])
