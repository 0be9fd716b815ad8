"""Checks alerts and their runbooks: each alert has a page, each page has an alert, and the commands in it exist."""

import re
import shlex
import subprocess

SEVERITIES = {"critical", "warning", "info"}
BASE = "https://github.com/streamfleet/streamfleet/blob/main/"
SECTIONS = ["## Meaning", "## Impact", "## Diagnosis", "## Mitigation", "## Verification"]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^streamfleet [^#|>\n]*", re.MULTILINE)
INLINE = re.compile(r"`(streamfleet [^`]*)`")


def alerts(groups):
    """Returns the alerting rules among the rules that Prometheus lists."""
    return [rule for group in groups for rule in group["rules"] if rule["type"] == "alerting"]


def words(every):
    """Yields labels and annotations that an alert lacks."""
    for rule in every:
        if rule["labels"].get("severity") not in SEVERITIES:
            yield f"{rule['name']}: its severity must be one of {', '.join(sorted(SEVERITIES))}"
        for key in ("summary", "description", "runbook_url"):
            if not rule["annotations"].get(key, "").strip():
                yield f"{rule['name']}: it has no {key}"


def pages(every, root):
    """Yields alerts without a page, pages without an alert, and pages that are not linked or lack a section."""
    folder = root / "docs/runbooks"
    index = (folder / "README.md").read_text()
    wanted = {}
    for rule in every:
        url = rule["annotations"].get("runbook_url", "")
        path = root / url.removeprefix(BASE)
        wanted[path] = rule["name"]
        if not url.startswith(BASE) or not path.is_file():
            yield f"{rule['name']}: its runbook does not exist: {url}"
        if f"[{rule['name']}]({path.name})" not in index:
            yield f"{rule['name']}: docs/runbooks/README.md does not link its page"
    for path in sorted(folder.glob("*.md")):
        if path.name == "README.md":
            continue
        text = path.read_text()
        if path not in wanted:
            yield f"{path.name}: no alert links to this page"
        elif not text.startswith(f"# {wanted[path]}\n"):
            yield f"{path.name}: its title must be {wanted[path]}"
        if re.findall(r"^## .*", text, re.MULTILINE) != SECTIONS:
            yield f"{path.name}: its sections must be {', '.join(SECTIONS)}"
        for link in re.findall(r"\]\(([\w-]+\.md)\)", text):
            if not (folder / link).is_file():
                yield f"{path.name}: it links to {link}, which does not exist"


def commands(program, root):
    """Yields commands and options in runbooks that the program does not have."""
    helps = {}
    for path in sorted((root / "docs/runbooks").glob("*.md")):
        text = path.read_text()
        for line in [*COMMAND.findall("".join(BLOCK.findall(text))), *INLINE.findall(text)]:
            for complaint in command(program, shlex.split(line), helps):
                yield f"{path.name}: `{line.strip()}`: {complaint}"


def command(program, words_of_line, helps):
    """Yields the command or options of one line that the program does not have."""
    options = [word.split("=")[0] for word in words_of_line if word.startswith("--")]
    path = ()
    text = help_of(program, path, helps)
    for word in words_of_line[1:]:
        below = section(text, "Commands:")
        if word.startswith("--"):
            continue
        # Its value follows a short option, and no command does.
        if word.startswith("-"):
            break
        # In `queues QUEUE`, a value stands where a command such as `queues purge` could. Runbooks write values in capitals.
        if not below or (word.isupper() and section(text, "Arguments:")):
            break
        if not re.search(rf"^  {re.escape(word)}\b", below, re.MULTILINE):
            yield f"there is no command {' '.join([*path, word])}"
            return
        path += (word,)
        text = help_of(program, path, helps)
    for option in options:
        if not re.search(rf"^\s+(?:-\w, )?{option}\b", text, re.MULTILINE):
            yield f"there is no option {option}"


def section(text, heading):
    """Returns the lines below a heading of a help text."""
    return text.partition(heading)[2].partition("\n\n")[0]


def help_of(program, path, helps):
    """Returns the output of `streamfleet … --help`."""
    if path not in helps:
        helps[path] = subprocess.run([program, *path, "--help"], capture_output=True, text=True, check=False).stdout
    return helps[path]
