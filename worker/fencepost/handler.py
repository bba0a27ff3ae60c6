"""What a user's function is to fencepost, and what it may say and know.

A handler is an ordinary function, `async def` or not. It takes its payload first and, if it wants
to, a `Context`; it says how it went by returning or by one of three exceptions.
"""

import asyncio
import inspect
import typing
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Protocol

import msgspec
import msgspec.inspect

from fencepost.emitting import Emitter, Kept, checked_emission
from fencepost.errors import UsageError
from fencepost.foreign_text import error_text, fit
from fencepost_policies.gaps import GAP
from fencepost_policies.pointer import check_pointer
from fencepost_schemas.event import ClassifiedEvent
from fencepost_schemas.limits import ATTEMPTS_MAX
from fencepost_schemas.row import Effect
from fencepost_schemas.subject import BadSubject, slug
from fencepost_schemas.verdict import Gap

RETRY_AFTER_S_MAX = 30 * 24 * 3600
ATTEMPTS_LIMIT = 1_000


# --- what a handler may say ---------------------------------------------------------------------
class Reject(Exception):
    """Raise it from a handler: this event must never be applied. It goes to the dead."""


class NotApplied(Exception):
    """Raise it from a handler that can prove that nothing happened: the event is tried again."""


class Retry(NotApplied):
    """Raise it from a handler that can prove that nothing happened, and knows when to try again.

    `after` is in seconds, up to thirty days. The attempt counts like any other.
    """

    def __init__(self, text: str = "", *, after: float) -> None:
        super().__init__(text or f"to be tried again in {after:g} s")
        if not 0 <= after <= RETRY_AFTER_S_MAX:
            raise UsageError(f"Retry(after={after!r}): 0 to {RETRY_AFTER_S_MAX} seconds")
        self.after_s = after


# --- what it may know ---------------------------------------------------------------------------
class Gate(Protocol):
    """What stands between a handler and its effect; for `with` and for `async with`."""

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None: ...

    async def __aenter__(self) -> None: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None: ...


class OpenGate:
    """The gate of a handler without a barrier, and of one that is called in a unit test."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        return None


_OPEN = OpenGate()


class Context(msgspec.Struct, frozen=True):
    """What a handler may know beside its payload.

    `idempotency_key` is the same for every attempt, and may be handed on to whoever receives the
    effect. `attempt` counts from 1 and only ever grows.
    """

    event: ClassifiedEvent
    handler: str
    idempotency_key: str
    attempt: int
    gate: Gate = _OPEN
    emitter: Emitter = msgspec.field(default_factory=Kept)

    def effect(self) -> Gate:
        """Return the barrier, for a handler registered with `barrier=True`.

            async with ctx.effect():
                await bank.charge(...)

        Before it nothing has happened, and whatever goes wrong is tried again. Inside, only
        `NotApplied` and `Reject` are believed; anything else leaves the effect in doubt. What goes
        wrong behind it is logged, and the event counts as applied. Enter it once.
        """
        return self.gate

    def emit(self, *, type: str, key: str = "", data: object = None) -> Awaitable[None]:
        """Publish an event of this app, and return once it is durable.

        It goes to handlers as any event does, and is applied once by its key, however often it is
        emitted: every attempt emits again. A reconciler's is applied once beside those that its
        source brings. `data` becomes JSON; bytes are taken as they are. Raises UsageError where
        there is no key, where the broker cannot carry it, and outside of `async def`.
        """
        emission = checked_emission(type, key, data)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError("emit: make the handler `async def`, and await it") from None
        return self.emitter.emit(emission)


# --- registration -------------------------------------------------------------------------------
HandlerFunction = Callable[..., object]


class Undecodable(ValueError):
    """The payload is not what the handler declared."""


class Handler(msgspec.Struct, frozen=True):
    """One registered function. `key` overrides the source's key rule.

    One that `reconciles` is called with gaps of its source.
    """

    name: str
    type: str
    function: HandlerFunction
    decode: Callable[[bytes], object]
    context_parameter: str | None
    effect: Effect
    key: str
    source: str | None
    attempts_max: int = ATTEMPTS_MAX
    barrier: bool = False
    sink_retention_s: float = 0.0
    threaded: bool = False
    reconciles: bool = False


class Registration(msgspec.Struct, frozen=True):
    """What is said at registration, as `Fencepost.on` takes it."""

    type: str
    name: str | None
    key: str
    effect: str
    source: str | None
    attempts: int
    barrier: bool
    sink_retention_s: float


def make_handler(function: HandlerFunction, said: Registration) -> Handler:
    """Return the handler; raise UsageError for anything that could not work."""
    shown = said.name or str(getattr(function, "__name__", "handler"))
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise UsageError(f"handler {shown}: a generator; return instead of yielding")
    _check_effect(shown, said)
    try:
        check_pointer(said.key)
    except ValueError as error:
        raise UsageError(f"handler {shown}: {error}") from None
    payload_type, context_parameter = parameters_of(function, shown)
    if said.barrier and context_parameter is None:
        raise UsageError(f"handler {shown}: barrier=True needs a `ctx: Context` to enter it by")
    source = said.source
    return Handler(
        name=checked_slug(shown.replace("_", "-"), "a handler's name"),
        type=said.type,
        function=function,
        decode=_decoder(payload_type, shown),
        context_parameter=context_parameter,
        effect=Effect(said.effect),
        key=said.key,
        source=checked_slug(source, "a source's name") if source is not None else None,
        attempts_max=said.attempts,
        barrier=said.barrier,
        sink_retention_s=said.sink_retention_s,
        threaded=not inspect.iscoroutinefunction(function),
    )


def make_reconciler(
    function: HandlerFunction, source: str, name: str | None, attempts: int
) -> Handler:
    """Return the handler of a source's gaps; raise UsageError for anything that could not work."""
    shown = name or str(getattr(function, "__name__", "reconciler"))
    said = Registration(
        type=GAP,
        name=shown,
        key="",
        effect=Effect.IDEMPOTENT,
        source=source,
        attempts=attempts,
        barrier=False,
        sink_retention_s=0.0,
    )
    if not inspect.iscoroutinefunction(function):
        raise UsageError(f"reconcile: make {shown} `async def`")
    payload_type, _ = parameters_of(function, shown)
    if payload_type not in (Any, Gap):
        raise UsageError(f"reconcile: {shown} takes a `gap: Gap` first")
    decode = _decoder(Gap, shown)
    return msgspec.structs.replace(make_handler(function, said), decode=decode, reconciles=True)


def _check_effect(shown: str, said: Registration) -> None:
    """Raise UsageError where what is said of the effect does not hold together."""
    if said.effect not in list(Effect):
        raise UsageError(
            f"handler {shown}: effect {said.effect!r} is not one of {', '.join(Effect)}"
        )
    effect = Effect(said.effect)
    if said.barrier and effect is not Effect.ONCE:
        raise UsageError(f"handler {shown}: only an effect of 'once' has a barrier")
    if (effect is Effect.KEYED) != (said.sink_retention_s > 0):
        raise UsageError(
            f"handler {shown}: effect='keyed' goes with sink_retention_s=, how long the receiver "
            "knows a key, and no other effect does"
        )
    if not 1 <= said.attempts <= ATTEMPTS_LIMIT:
        raise UsageError(f"handler {shown}: attempts must be 1 to {ATTEMPTS_LIMIT}")


def parameters_of(function: HandlerFunction, shown: str) -> tuple[Any, str | None]:
    """Return the payload's type, and the name of the Context parameter if there is one."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise UsageError(f"handler {shown}: a type hint cannot be resolved: {error}") from None
    parameters = inspect.signature(function).parameters
    names = list(parameters)
    contexts = [name for name in names if hints.get(name) is Context]
    payloads = [name for name in names if name not in contexts]
    # The payload is handed over by place, the context by name.
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    callable_so = all(
        parameters[name].kind in by_place
        if name in payloads
        else parameters[name].kind is not by_place[0]
        for name in names
    )
    one_each = len(payloads) == 1 and len(contexts) <= 1
    if not one_each or names[0] != payloads[0] or not callable_so:
        raise UsageError(
            f"handler {shown}: take the payload first, then at most one `ctx: Context`"
        )
    return hints.get(payloads[0], Any), contexts[0] if contexts else None


def _decoder(payload_type: Any, shown: str) -> Callable[[bytes], object]:
    """Return a function from raw bytes to the payload; `bytes` takes them as they are."""
    if payload_type is bytes:
        return lambda payload: payload
    try:
        decoder = msgspec.json.Decoder(payload_type)
        foreign = _foreign_type(msgspec.inspect.type_info(payload_type), set())
    except (TypeError, NotImplementedError) as error:
        raise UsageError(f"handler {shown}: its payload type cannot be decoded: {error}") from None
    if foreign is not None:
        raise UsageError(
            f"handler {shown}: its payload type cannot be decoded: {foreign!r} is no msgspec "
            "struct, dataclass or plain type"
        )

    def decode(payload: bytes) -> object:
        try:
            return decoder.decode(payload)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise Undecodable(f"the payload is not what {shown} takes: {fit(error)}") from None
        except MemoryError:
            raise
        except BaseException as error:  # whatever the user's own type raises while it is made
            raise Undecodable(f"the payload of {shown}: {error_text(error)}") from None

    return decode


def _foreign_type(info: object, seen: set[int]) -> object:
    """Return a type in there that msgspec takes at registration and refuses at every event."""
    if id(info) in seen or not isinstance(info, msgspec.inspect.Type | msgspec.inspect.Field):
        return None
    seen.add(id(info))
    if isinstance(info, msgspec.inspect.CustomType):
        return info.cls
    for name in info.__struct_fields__:
        value = getattr(info, name)
        for part in value if isinstance(value, tuple) else (value,):
            if (found := _foreign_type(part, seen)) is not None:
                return found
    return None


def checked_slug(text: str, what: str) -> str:
    try:
        return slug(text)
    except BadSubject as error:
        raise UsageError(f"{what}: {error}") from None
