"""All benchmarks, or one of them: `make bench`, `make bench ARGS="--only decoder"`.

Each is a process of its own, one after the other. Anything else in ARGS goes to the one that is
named with --only.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NAMES = ("decoder", "bridge", "pool")
# Whether memory is kept or given back and asked for anew depends on its size, and would show as
# work that grows with the size of an event.
KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "268435456", "MALLOC_TRIM_THRESHOLD_": "536870912"}


def command(name: str, bench_python: str) -> list[str]:
    # Only the decoder is compared with libraries that are no part of the product.
    python = bench_python if name == "decoder" else sys.executable
    return [python, str(HERE / f"{name}.py")]


def run(name: str, bench_python: str, arguments: list[str]) -> str:
    """Run one benchmark, its progress going to stderr; return what it found."""
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("tests", "schemas"))
    print(f"{name}:", file=sys.stderr, flush=True)
    ran = subprocess.run(
        [*command(name, bench_python), *arguments],
        env={**os.environ, **KEPT_MEMORY, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return ran.stdout


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=NAMES)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--bench-python", default=sys.executable, help=argparse.SUPPRESS)
    chosen, rest = parser.parse_known_args()
    if rest and not chosen.only:
        parser.error(f"{' '.join(rest)}: say which benchmark that is for, with --only")
    found: dict[str, Any] = {}
    for name in NAMES if chosen.only is None else (chosen.only,):
        text = run(name, chosen.bench_python, [*rest, *(["--json"] if chosen.json else [])])
        if chosen.json:
            found[name] = json.loads(text)
        else:
            print(text, flush=True)
    if chosen.json:
        print(json.dumps(found))
