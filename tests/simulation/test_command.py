"""The command that plays seeds: what it is given, and what it says."""

import msgspec
import pytest

from fencepost.testing.simulator import __main__ as command


def play(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["simulator", *arguments])
    return command.main()


@pytest.mark.parametrize("seeds", ["", "abc", "1:x", "5:", ":3", "5:3", "4:4", "-1:3", "0:2:3"])
def test_seeds_that_are_none_are_one_clear_line(
    seeds: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit:
        play(monkeypatch, f"--seeds={seeds}")
    told = capsys.readouterr().err.splitlines()[-1]
    assert 2 == exit.value.code
    assert f"argument --seeds: {seeds!r}" in told


@pytest.mark.parametrize("jobs", ["0", "-1", "two"])
def test_jobs_that_are_none_are_one_clear_line(
    jobs: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit:
        play(monkeypatch, f"--jobs={jobs}")
    assert 2 == exit.value.code
    assert f"argument --jobs: {jobs!r}" in capsys.readouterr().err.splitlines()[-1]


def test_in_a_pipe_there_are_results_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """How far it is is for a terminal; a program gets one object a seed."""
    assert 0 == play(monkeypatch, "--seeds=3:5", "--json")
    said = capsys.readouterr()
    assert "" == said.err
    assert [3, 4] == [msgspec.json.decode(line)["seed"] for line in said.out.splitlines()]


def test_one_seed_is_named_by_its_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 0 == play(monkeypatch, "--seeds=3")
    assert capsys.readouterr().out.startswith("1 seeds, ")
