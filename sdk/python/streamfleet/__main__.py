"""``python -m streamfleet MODULE …`` imports modules with handlers, and runs them.

Standard output is taken before the modules are imported, so even what they print while they are imported does no harm.
"""

import argparse
import importlib
import os
import sys

from . import _worker


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m streamfleet", description="Runs handlers for a streamfleet worker.")
    parser.add_argument("modules", nargs="+", metavar="MODULE", help="a module that registers handlers, such as app.jobs")
    parser.add_argument("--inflight", type=int, help="the most asyncio jobs at once")
    parser.add_argument("--max-jobs", type=int, help="end after this many jobs; the worker starts another process")
    args = parser.parse_args()
    if os.isatty(0):
        sys.exit("This program takes jobs from a streamfleet worker: name it as the command of a pool.")
    for module in filter(_is_file, args.modules):
        path = os.path.splitext(os.path.relpath(module))[0]
        name = (os.path.basename(path) if path.startswith(os.pardir) else path).replace(os.sep, ".")
        parser.error(f"{module} is a file: name the module, such as {name}")
    _worker._Channel.claim()
    for module in args.modules:
        importlib.import_module(module)
    _worker.run(inflight=args.inflight, max_jobs=args.max_jobs)


def _is_file(module: str) -> bool:
    """Beside a module, there may be a file without an ending that has its name."""
    return os.path.isfile(module) and (module.endswith(".py") or os.sep in module)


if __name__ == "__main__":
    main()
