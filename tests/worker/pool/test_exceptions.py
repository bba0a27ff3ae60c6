"""Whatever a handler or a checker raises is what became of this one event, and of no other."""

import asyncio
from typing import Any

import msgspec
import pytest

from fencepost import Context, Fencepost, NotApplied, Reject, Retry
from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.row import State
from kit.anywhere import play_in_memory, worker
from kit.house import House, house
from kit.pool import SOURCE, dead, event, publish, questions, rows, settle
from kit.wait import until

NEIGHBOURS = [f"neighbour-{number}" for number in range(6)]


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("it has no text")


class Exit(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Number(NotApplied):
    # The wrong type is what is tested.
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]


NONE_OF_THEM: list[BaseException] = [
    BaseException("base"),
    GeneratorExit(),
    SystemExit(3),
    KeyboardInterrupt(),
    asyncio.CancelledError("by hand"),
    BaseExceptionGroup("several", [SystemExit(1), ValueError()]),
    StopIteration(1),
    StopAsyncIteration(1),
]
ODD_TEXTS: list[BaseException] = [
    RuntimeError("no such file: 'caf\udce9.txt'"),
    RuntimeError("\ud800" * 5_000),
    RuntimeError("x" * 5_000_000),
    Silent(),
    Exit(),
]


def named(error: BaseException) -> str:
    return type(error).__name__


class Scene:
    """An app whose handler raises for one event, while its neighbours are at work."""

    def __init__(self, error: BaseException, effect: str) -> None:
        self.app = Fencepost("shop")
        self.raised = 0
        self._begun = 0
        self._going_on = asyncio.Event()
        declared: dict[str, Any] = {"barrier": True} if effect == "barrier" else {"effect": effect}

        @self.app.on("odd", name="odd", **declared)
        async def odd(payload: bytes, ctx: Context) -> None:
            async with ctx.effect():
                await asyncio.sleep(0)
                self.raised += 1
                raise error

        @self.app.on("task", name="task", effect="once")
        async def task(payload: bytes) -> None:
            self._begun += 1
            await self._going_on.wait()

    async def play(self, home: House) -> dict[str, State]:
        await publish(home, *(event(key, key) for key in NEIGHBOURS))
        async with worker(home, self.app) as running:
            await until(lambda: self._begun == len(NEIGHBOURS), "the neighbours to be at work")
            await publish(home, event("odd", type="odd"))
            await until(lambda: bool(self.raised), "it to be raised")
            self._going_on.set()
            await settle(home)
            assert not running.done(), running.exception()
        running.result()
        stand = {key.removeprefix("k:"): row.state for key, row in (await rows(home)).items()}
        assert {State.APPLIED} == {stand.pop(key) for key in NEIGHBOURS}
        return stand


def outcome(error: BaseException, effect: str, seed: int = 1) -> dict[str, State]:
    return play_in_memory(lambda home: Scene(error, effect).play(home), seed)


@pytest.mark.parametrize("error", [*NONE_OF_THEM, *ODD_TEXTS], ids=named)
@pytest.mark.parametrize(
    ("effect", "state"),
    [
        ("once", State.IN_DOUBT),
        ("barrier", State.IN_DOUBT),
        ("idempotent", State.REJECTED),
    ],
)
def test_it_is_unknown_what_became_of_the_event(
    error: BaseException, effect: str, state: State
) -> None:
    assert {"odd": state} == outcome(error, effect)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (Reject("caf\udce9"), State.REJECTED),
        (NotApplied("caf\udce9"), State.REJECTED),
        (Retry("caf\udce9", after=0.1), State.REJECTED),
        (Number(), State.REJECTED),
    ],
    ids=lambda one: named(one) if isinstance(one, BaseException) else "",
)
def test_what_a_handler_says_counts_whatever_the_text(error: BaseException, state: State) -> None:
    """Rejected at once, or once the attempts are used up; the dead letter has a reason."""

    async def play(home: House) -> list[str]:
        assert {"odd": state} == await Scene(error, "once").play(home)
        return [letter.headers["fencepost-error"] for letter in await dead(home)]

    [reason] = play_in_memory(play, 1)
    assert reason
    assert reason.isascii()


async def test_in_a_thread_as_well(broker: EmbeddedBroker) -> None:
    """A handler for each, so that none is paused; one of them ends well."""
    errors = [*NONE_OF_THEM, *ODD_TEXTS]
    app = Fencepost("shop")

    def register(number: int, error: BaseException) -> None:
        @app.on(f"odd.{number}", name=f"odd-{number}")
        def in_a_thread(payload: bytes) -> None:
            raise error

    for number, error in enumerate(errors):
        register(number, error)

    @app.on("even", name="even")
    def ends_well(payload: bytes) -> None: ...

    async with house(broker, SOURCE) as home:
        await home.init()
        odd = [event(str(number), type=f"odd.{number}") for number in range(len(errors))]
        await publish(home, *odd, event("even", type="even"))
        async with worker(home, app) as running:
            await settle(home)
            assert not running.done(), running.exception()
        stand = {row.handler: row.state for row in await home.rows()}
    assert stand.pop("even") is State.APPLIED
    assert len(errors) == len(stand)
    assert {State.IN_DOUBT} == set(stand.values())


@pytest.mark.parametrize("error", [*NONE_OF_THEM, *ODD_TEXTS], ids=named)
def test_a_checker_that_raises_it_cannot_say(error: BaseException) -> None:
    async def play(home: House) -> tuple[State, str]:
        app = Fencepost("shop")

        @app.on("task", name="charge")
        async def charge(payload: bytes) -> None:
            raise RuntimeError("connection lost")

        @app.verify("charge")
        async def check(payload: bytes) -> bool:
            raise error

        await publish(home, event("a"))
        async with worker(home, app) as running:
            await settle(home)
            assert not running.done(), running.exception()
        [asked] = await questions(home)
        return (await rows(home))["k:a"].state, asked.error

    state, text = play_in_memory(play, 1)
    assert state is State.IN_DOUBT
    assert text.startswith("attempt 1: its checker failed: ")


def test_a_payload_type_that_raises_is_undecodable() -> None:
    """What the user's own type does while it is made is no fault of this program's."""

    class Strange(msgspec.Struct):
        k: str

        def __post_init__(self) -> None:
            raise LookupError("caf\udce9")

    async def play(home: House) -> State:
        app = Fencepost("shop")

        @app.on("task", name="charge")
        async def charge(payload: Strange) -> None: ...

        await publish(home, event("a"))
        async with worker(home, app) as running:
            await settle(home)
            assert not running.done(), running.exception()
        return (await rows(home))["k:a"].state

    assert play_in_memory(play, 1) is State.REJECTED


def test_a_result_that_cannot_be_looked_into_is_no_failure() -> None:
    class Strange:
        # No type allows what is tested here.
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            raise LookupError("caf\udce9")

    async def play(home: House) -> State:
        app = Fencepost("shop")

        @app.on("task", name="charge")
        async def charge(payload: bytes) -> object:
            return {"caf\udce9": Strange()}

        await publish(home, event("a"))
        async with worker(home, app):
            await settle(home)
        return (await rows(home))["k:a"].state

    assert play_in_memory(play, 1) is State.APPLIED
