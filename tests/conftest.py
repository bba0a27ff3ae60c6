"""Fixtures for every test: a real nats-server of its own where one is asked for."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fencepost.broker.embedded import EmbeddedBroker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[EmbeddedBroker]:
    """A fresh nats-server, its data synced on every write, gone after the test."""
    async with EmbeddedBroker(tmp_path / "broker") as running:
        yield running
