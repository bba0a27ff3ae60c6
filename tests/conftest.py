"""Fixtures for every test: a real nats-server of its own where one is asked for."""

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from fencepost.broker.embedded import EmbeddedBroker

HANGS_S = 300.0
"""No test that goes on takes a fifth of it. It is no test's measure, and slow machines are slow."""


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[EmbeddedBroker]:
    """A fresh nats-server, its data synced on every write, gone after the test."""
    async with EmbeddedBroker(tmp_path / "broker") as running:
        yield running


def pytest_itemcollected(item: pytest.Item) -> None:
    """Have a test that waits for what never comes fail, and show the line at which it waits.

    What hangs in other ways ends the run, by `faulthandler_timeout` in pyproject.toml.
    """
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        item.obj = within_limit(item.obj)


def within_limit(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def limited(*args: object, **named: object) -> None:
        async with asyncio.timeout(HANGS_S):
            await test(*args, **named)

    return limited
