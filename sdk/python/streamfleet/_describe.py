"""What the handlers of a program say about their types, for the configuration of the worker: docs/pools.md has the contract."""

import json
import sys
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence

from ._producer import Submission

if TYPE_CHECKING:
    from ._producer import Options

#: The variable by which a program is asked for that.
DESCRIBE = "STREAMFLEET_DESCRIBE"


def sections(declared: "Mapping[str, Options]") -> Dict[str, Dict[str, Any]]:
    """The keys of ``[types.NAME]`` that the handlers set, by type. A value that no job may have is refused, as when one is submitted."""
    return {type_: _section(type_, declared[type_]) for type_ in sorted(declared)}


def _section(type_: str, options: "Options") -> Dict[str, Any]:
    terms: Any = {name: options.get(name) for name in ("max_attempts", "timeout", "tracking", "on_success", "on_failure")}
    texts = {name.decode(): value.decode() for name, value in Submission(type_, **terms).fields}
    section: Dict[str, Any] = {}
    if "max_attempts" in texts:
        section["max_attempts"] = int(texts["max_attempts"])
    if "timeout_ms" in texts:
        section["timeout"] = f"{texts['timeout_ms']}ms"
    return {**section, **{name: texts[name] for name in ("tracking", "on_success", "on_failure") if name in texts}}


def describe(declared: "Mapping[str, Options]") -> None:
    """Writes the line of a program that is asked, also while what is printed goes elsewhere."""
    line = json.dumps({"type": "handlers", "protocol": 1, "types": sections(declared)}, separators=(",", ":"))
    print(line, file=sys.__stdout__, flush=True)


def toml(declared: "Mapping[str, Options]", pool: Optional[str] = None, modules: Sequence[str] = ()) -> str:
    """These keys as sections of the worker's configuration. With the name of a pool, they are all that its worker needs."""
    # Texts and lists of JSON are those of TOML. A name of a type may have dots, which a bare key may not.
    parts, handler = [], []
    if pool is not None:
        command = [sys.executable, "-m", "streamfleet", *modules]
        parts.append(f"[pools.{pool}]\ncommand = {json.dumps(command)}")
        handler.append(f"handler = {{ pool = {json.dumps(pool)} }}")
    for type_, section in sections(declared).items():
        terms = [f"{key} = {json.dumps(value)}" for key, value in section.items()]
        parts.append("\n".join([f"[types.{json.dumps(type_)}]", *handler, *terms]))
    return "\n\n".join(parts) + "\n"
