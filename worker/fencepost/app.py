"""What a user imports and decorates: an app is a name and a set of handlers.

    app = Fencepost("billing")

    @app.on("task.assigned", key="/task_id")
    async def charge(task: TaskAssigned, ctx: Context) -> None: ...

A handler stays an ordinary function: call it directly in a unit test.
"""

import inspect
import typing
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import msgspec
import msgspec.inspect

from fencepost.errors import UsageError
from fencepost_policies.pointer import check_pointer
from fencepost_schemas.event import ClassifiedEvent
from fencepost_schemas.row import Effect
from fencepost_schemas.subject import BadSubject, slug


class Reject(Exception):
    """Raise it from a handler: this event must never be applied. It goes to the dead."""


class NotApplied(Exception):
    """Raise it from a handler that can prove that nothing happened: the event is tried again."""


class Context(msgspec.Struct, frozen=True):
    """What a handler may know beside its payload.

    `idempotency_key` is the same for every attempt, and may be handed on to whoever receives the
    effect. `attempt` counts from 1 and only ever grows.
    """

    event: ClassifiedEvent
    handler: str
    idempotency_key: str
    attempt: int


HandlerFunction = Callable[..., Awaitable[object]]
F = TypeVar("F", bound=HandlerFunction)
Lifespan = Callable[[], AbstractAsyncContextManager[None]]


class Undecodable(ValueError):
    """The payload is not what the handler declared."""


class Handler(msgspec.Struct, frozen=True):
    """One registered function. `key` overrides the source's key rule."""

    name: str
    type: str
    function: HandlerFunction
    decode: Callable[[bytes], object]
    context_parameter: str | None
    effect: Effect
    key: str
    source: str | None


class Fencepost:
    """An app. Its name names its consumers at the broker, so keep it when the code moves."""

    def __init__(self, name: str, *, lifespan: Lifespan | None = None) -> None:
        self.name = _checked_slug(name, "the app's name")
        self.handlers: dict[str, Handler] = {}
        self._by_type: dict[str, list[Handler]] = {}
        self._lifespan = lifespan

    def on(
        self,
        type: str,
        *,
        name: str | None = None,
        key: str = "",
        effect: str = "once",
        source: str | None = None,
    ) -> Callable[[F], F]:
        """Register a handler for events of one type.

        `name` (default: the function's) is part of every ledger row: keep it when the function is
        renamed, and use it once on a broker, whichever app it is in. `key` is a JSON pointer that
        overrides the source's. `effect` is "once" (the default: never run again after a start that
        is in doubt) or "idempotent". Raises UsageError, now and not at the first event, for
        anything that could not work.
        """

        def register(function: F) -> F:
            handler = _make_handler(function, type, name, key, effect, source)
            if handler.name in self.handlers:
                raise UsageError(f"there are two handlers named {handler.name!r} in {self.name!r}")
            self.handlers[handler.name] = handler
            self._by_type.setdefault(type, []).append(handler)
            return function

        return register

    def handlers_for(self, event: ClassifiedEvent) -> list[Handler]:
        """Return the handlers of this event, in the order in which they were registered."""
        return [
            handler
            for handler in self._by_type.get(event.type, ())
            if handler.source is None or handler.source == event.source
        ]

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Hold what the app opens for as long as its worker runs."""
        if self._lifespan is None:
            yield
        else:
            async with self._lifespan():
                yield


def _make_handler(
    function: HandlerFunction,
    type: str,
    name: str | None,
    key: str,
    effect: str,
    source: str | None,
) -> Handler:
    shown = name or str(getattr(function, "__name__", "handler"))
    if not inspect.iscoroutinefunction(function):
        raise UsageError(f"handler {shown}: make it `async def`")
    if effect not in list(Effect):
        raise UsageError(f"handler {shown}: effect {effect!r} is not one of {', '.join(Effect)}")
    try:
        check_pointer(key)
    except ValueError as error:
        raise UsageError(f"handler {shown}: {error}") from None
    payload_type, context_parameter = _parameters(function, shown)
    return Handler(
        name=_checked_slug(shown.replace("_", "-"), "a handler's name"),
        type=type,
        function=function,
        decode=_decoder(payload_type, shown),
        context_parameter=context_parameter,
        effect=Effect(effect),
        key=key,
        source=_checked_slug(source, "a source's name") if source is not None else None,
    )


def _parameters(function: HandlerFunction, shown: str) -> tuple[Any, str | None]:
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
            raise Undecodable(f"the payload is not what {shown} takes: {error}") from None

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


def _checked_slug(text: str, what: str) -> str:
    try:
        return slug(text)
    except BadSubject as error:
        raise UsageError(f"{what}: {error}") from None
