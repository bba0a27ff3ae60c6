"""Each import contract is tried with a violation: a rule that nothing can break is no rule."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VIOLATIONS = {
    "schemas import policies": (
        "schemas/fencepost_schemas/row.py",
        "import fencepost_policies.judge",
        "say <- decide <- do",
    ),
    "policies import the worker": (
        "policies/fencepost_policies/keys.py",
        "import fencepost.clock",
        "say <- decide <- do",
    ),
    "policies read a clock": (
        "policies/fencepost_policies/retry.py",
        "import time",
        "schemas and policies do no IO",
    ),
    "schemas write a log": (
        "schemas/fencepost_schemas/event.py",
        "import logging",
        "schemas and policies do no IO",
    ),
    "the bridge imports the pool": (
        "worker/fencepost/bridge/shelf.py",
        "import fencepost.pool.ask",
        "bridge, pool and desk do not know each other",
    ),
    "the pool chooses its ledger": (
        "worker/fencepost/pool/drive.py",
        "import fencepost.ledgers.kv",
        "choose adapters",
    ),
    "a probe reaches for the broker": (
        "worker/fencepost/probe/run.py",
        "import fencepost.broker.jetstream",
        "a probe asks a source and nobody else",
    ),
    "a circle under TYPE_CHECKING": (
        "schemas/fencepost_schemas/standing.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import fencepost_schemas.cursor",
        "no circles",
    ),
}


@pytest.mark.parametrize("violation", VIOLATIONS)
def test_a_violation_is_reported_under_its_contract(violation: str, tmp_path: Path) -> None:
    """The contract that should break breaks, and says so by its name."""
    file, code, contract = VIOLATIONS[violation]
    for folder in ("schemas", "policies", "worker"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    broken = tmp_path / file
    broken.write_text(broken.read_text("utf-8") + f"\n{code}\n", "utf-8")

    found = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": "schemas:policies:worker"},
        capture_output=True,
        text=True,
        check=False,
    )

    kept_or_broken = {
        line.rsplit(" ", 1)[0]: line.rsplit(" ", 1)[1]
        for line in found.stdout.splitlines()
        if line.endswith((" KEPT", " BROKEN"))
    }
    verdict = [word for name, word in kept_or_broken.items() if contract in name]
    assert (found.returncode, verdict) == (1, ["BROKEN"]), found.stdout
