"""Proves that the house is tidy: small files, small functions, honest names, nothing put off.

A failure names file and line, and what to do there.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("schemas", "policies", "worker", "tests")
MODULE_LINES_MAX = 400
TEST_LINES_MAX = 600
FUNCTION_LINES_MAX = 50
# A name of this kind says where a thing was put, not what it is.
NAMES_FORBIDDEN = frozenset({"util", "utils", "helper", "helpers", "common", "base", "manager"})
LATER = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")
CATCHES_ALL = re.compile(r"^\s*except\s+(Exception|BaseException)\b.*:|^\s*except\s*:")


def modules() -> Iterator[tuple[str, Path]]:
    """Yield every Python file of the house with the folder that it is in."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "__pycache__" not in path.parts:
                yield folder, path


MODULES = list(modules())


def where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines from `def` to the end, without the docstring; decorators do not count."""
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if isinstance(first, ast.Expr) and ast.get_docstring(function) is not None:
        assert first.end_lineno is not None
        lines -= first.end_lineno - first.lineno + 1
    return lines


def explained(lines: list[str], at: int) -> bool:
    """Return True if this line, or the one before it, carries a comment."""
    before = lines[at - 1].strip() if at > 0 else ""
    return "#" in lines[at] or before.startswith("#")


def test_the_house_is_found() -> None:
    """The tests below look at something."""
    assert set(FOLDERS) == {folder for folder, _ in MODULES}


def test_no_module_is_too_long() -> None:
    """A module past its bound wants a second noun."""
    long = [
        f"{where(path, bound + 1)}: {count} lines, {bound} are allowed"
        for folder, path in MODULES
        for bound in [TEST_LINES_MAX if folder == "tests" else MODULE_LINES_MAX]
        for count in [len(path.read_text().splitlines())]
        if count > bound
    ]
    assert not long, "\n".join(long)


def test_no_function_is_too_long() -> None:
    """A function past its bound does two things."""
    long = [
        f"{where(path, function.lineno)}: {function.name} has {lines_of(function)} lines, "
        f"{FUNCTION_LINES_MAX} are allowed"
        for _, path in MODULES
        for function in functions(ast.parse(path.read_text()))
        if lines_of(function) > FUNCTION_LINES_MAX
    ]
    assert not long, "\n".join(long)


def test_nothing_is_put_off() -> None:
    """What is to be done is done, or stands in the tracker; the code says what is."""
    found = [
        f"{where(path, number)}: {line.strip()}"
        for _, path in MODULES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if LATER.search(line)
    ]
    assert not found, "\n".join(found)


def test_whoever_catches_everything_says_why() -> None:
    """A comment on the line, or on the one before it, gives the reason."""
    silent = []
    for _, path in MODULES:
        lines = path.read_text().splitlines()
        for at, line in enumerate(lines):
            if CATCHES_ALL.match(line) and not explained(lines, at):
                silent.append(f"{where(path, at + 1)}: {line.strip()} without a reason")
    assert not silent, "\n".join(silent)


def test_no_module_has_a_name_that_says_nothing() -> None:
    """A module is called after what it holds."""
    found = [
        f"{where(path, 1)}: call it after what it holds"
        for _, path in MODULES
        for name in (path.stem, *path.relative_to(ROOT).parts[:-1])
        if NAMES_FORBIDDEN & set(name.lower().split("_"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("def f():\n    return 1\n", 2),
        ('def f():\n    """One."""\n    return 1\n', 2),
        ('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n', 2),
        ("@g\n@h\ndef f():\n    return 1\n", 2),
        ("async def f():\n    a = 1\n\n    return a\n", 4),
    ],
)
def test_the_lines_of_a_function_are_counted_as_people_do(source: str, lines: int) -> None:
    """From `def` to the end, docstring and decorators left out."""
    (function,) = functions(ast.parse(source))
    assert lines == lines_of(function)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("except Exception:", False),
        ("except Exception as error:", False),
        ("except Exception:  # the handler is foreign code", True),
        ("# the handler is foreign code\nexcept Exception:", True),
        ("run()\nexcept Exception:", False),
    ],
)
def test_a_reason_is_seen(source: str, expected: bool) -> None:
    """The check above tells a comment from its absence."""
    lines = source.splitlines()
    assert CATCHES_ALL.match(lines[-1])
    assert expected is explained(lines, len(lines) - 1)
