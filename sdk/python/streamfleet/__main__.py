"""``python -m streamfleet MODULE …`` imports modules with handlers, and runs them.

Standard output is taken before the modules are imported, so even what they print while they are imported does no harm.
``python -m streamfleet config MODULE …`` prints the options of these handlers as sections of the worker's configuration.
"""

import argparse
import contextlib
import importlib
import os
import sys

from . import _worker
from ._describe import DESCRIBE, describe, toml
from ._producer import DECLARED


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m streamfleet",
        description="Runs handlers for a streamfleet worker.",
        epilog="python -m streamfleet config MODULE … prints the options of the handlers as [types] of the worker's configuration.",
    )
    parser.add_argument("modules", nargs="+", metavar="MODULE", help="a module that registers handlers, such as app.jobs")
    parser.add_argument("--pool", metavar="NAME", help="with config: also print a pool of this name, which has the types")
    parser.add_argument("--inflight", type=int, help="the most asyncio jobs at once")
    parser.add_argument("--max-jobs", type=int, help="end after this many jobs; the worker starts another process")
    args = parser.parse_intermixed_args()
    # Alone, it is a module of that name.
    is_config = args.modules[0] == "config" and len(args.modules) > 1
    modules = args.modules[1:] if is_config else args.modules
    is_asked = is_config or os.environ.get(DESCRIBE) == "1"
    if not is_asked and os.isatty(0):
        sys.exit("This program takes jobs from a streamfleet worker: name it as the command of a pool.")
    for module in filter(_is_file, modules):
        path = os.path.splitext(os.path.relpath(module))[0]
        name = (os.path.basename(path) if path.startswith(os.pardir) else path).replace(os.sep, ".")
        parser.error(f"{module} is a file: name the module, such as {name}")
    if is_asked:
        with contextlib.redirect_stdout(sys.stderr):
            _imported(modules)
        print(toml(DECLARED, args.pool, modules), end="") if is_config else describe(DECLARED)
        return
    _worker._Channel.claim()
    _imported(modules)
    _worker.run(inflight=args.inflight, max_jobs=args.max_jobs)


def _imported(modules: "list[str]") -> None:
    for module in modules:
        importlib.import_module(module)
    if not _worker._default.handlers:
        raise RuntimeError(f"no handler is registered in {', '.join(modules)}")


def _is_file(module: str) -> bool:
    """Beside a module, there may be a file without an ending that has its name."""
    return os.path.isfile(module) and (module.endswith(".py") or os.sep in module)


if __name__ == "__main__":
    main()
