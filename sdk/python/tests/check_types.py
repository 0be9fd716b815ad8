"""Checks the README's examples, and a program with planted mistakes, with mypy and pyright. Run by check.sh.

An example whose handlers name the types of their payloads passes the strict modes, and every other one the default modes. In
tests/typed.py, each mistake has a comment that ignores it, and both programs report such a comment if there is no mistake.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
SDK = HERE.parent
BLOCK = re.compile(r"^<!-- run: (program|unit|file my_jobs\.py) -->\n```python\n(.*?)^```$", re.M | re.S)


def examples():
    """The examples, and whether each is strict. Two of them may register the same type, so each is a file of its own."""
    found = [code for _, code in BLOCK.findall((SDK / "README.md").read_text())]
    strict = [code for code in found if "Job[" in code]
    assert len(found) >= 10 and strict, f"{len(found)} examples, {len(strict)} of them with types"
    return [(code, code in strict) for code in found]


def run(*command, folder):
    done = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    print("ok  ", command[0], "-", done.stdout.strip().splitlines()[-1])


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    files = {True: [], False: []}
    for number, (code, is_strict) in enumerate(examples()):
        path = folder / f"example_{number}.py"
        path.write_text(("# pyright: strict\n" if is_strict else "") + code)
        files[is_strict].append(path.name)
    (folder / "typed.py").write_text("# pyright: strict, reportUnnecessaryTypeIgnoreComment=true\n" + (HERE / "typed.py").read_text())
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "basic", "extraPaths": [str(SDK)]}))
    (folder / "mypy.ini").write_text(f"[mypy]\nmypy_path = {SDK}\ncache_dir = {folder}/cache\n")
    run("mypy", "--strict", *files[True], "typed.py", folder=folder)
    run("mypy", *files[False], folder=folder)
    run("pyright", "--pythonpath", sys.executable, folder=folder)
