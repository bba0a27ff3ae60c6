"""The demo, as a user runs it: the same servers and events for both clients, and the truth."""

import json
import subprocess
import sys

NUMBERS = ("once", "twice", "lost", "in_gap", "waiting")


def test_the_demo_holds_what_the_readme_says() -> None:
    """Each column adds up; fencepost does nothing twice and loses nothing; the naive client does
    both; an honest server is believed."""
    played = subprocess.run(
        [sys.executable, "-m", "fencepost", "demo", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert 0 == played.returncode, played.stderr
    acts = json.loads(played.stdout.splitlines()[-1])["acts"]
    for act in acts.values():
        for tally in act.values():
            assert tally["emitted"] == sum(tally[column] for column in NUMBERS)
        assert [0, 0] == [act["fencepost"]["twice"], act["fencepost"]["lost"]]

    wrong = acts["wrong replica"]
    assert ["genesis", "reoriginated"] == [one["kind"] for one in wrong["fencepost"]["verdicts"]]
    assert [9, 0] == [wrong["fencepost"]["in_gap"], wrong["fencepost"]["waiting"]]
    assert wrong["naive"]["twice"] == 11
    assert wrong["naive"]["lost"] == 9

    window = acts["window exceeded"]["fencepost"]
    assert ["genesis", "reoriginated"] == [one["kind"] for one in window["verdicts"]]
    assert "overlap_other_bytes" in window["verdicts"][1]["reasons"]
    assert [300, 0] == [window["in_gap"], window["waiting"]]
    assert acts["window exceeded"]["naive"]["lost"] == 300

    mcp = acts["mcp"]["fencepost"]
    kinds = [one["kind"] for one in mcp["verdicts"]]
    assert ["genesis", "reoriginated", "resumed"] == kinds[:3]
    assert {"resumed"} == set(kinds[2:])
    assert [10, 0] == [mcp["in_gap"], mcp["waiting"]]
    assert acts["mcp"]["naive"]["twice"] == 11

    honest = acts["honest server"]["fencepost"]
    assert honest["emitted"] == honest["once"]
    assert ["genesis", *["resumed"] * 5] == [one["kind"] for one in honest["verdicts"]]
