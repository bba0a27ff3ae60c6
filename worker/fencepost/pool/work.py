"""One event for one handler: what the pool carries from the broker to the ledger."""

import msgspec

from fencepost.handler import Handler, Undecodable
from fencepost_policies.disposition import dispose
from fencepost_policies.keys import Key, key_for, key_in
from fencepost_policies.plan import Arrived, Start
from fencepost_schemas.event import ClassifiedEvent, KeyScope
from fencepost_schemas.question import Held, Ruling
from fencepost_schemas.subject import Subjects, key_token


class Ruled(msgspec.Struct, frozen=True, gc=False):
    """What has been ruled on an event's generation, and the one that positions are counted in.

    The two differ where a person ruled that the stream simply went on: then an event that comes
    again after the seam has the place, and so the derived key, that it had before.
    """

    ruling: Ruling | None
    generation: str
    actor: str = ""


class Work(msgspec.Struct, frozen=True, gc=False):
    handler: Handler
    event: ClassifiedEvent
    carrier: Held
    key: Key
    row_subject: str
    payload: object
    undecodable: str
    reply: str = ""
    """Where the broker is told that this work is going on, "" for nowhere."""


def make_work(
    handler: Handler,
    event: ClassifiedEvent,
    carrier: Held,
    ruled: Ruled,
    subjects: Subjects,
    reply: str = "",
) -> Work:
    """Return the work of this event for this handler; its payload is decoded, its key chosen."""
    own = key_in(handler.key, event.payload) if handler.key and event.payload else event.key
    scoped = event
    if handler.key and event.key_scope is KeyScope.NONE:
        # A handler that names a key vouches for it where the source says nothing.
        scoped = msgspec.structs.replace(event, key_scope=KeyScope.DURABLE)
    tainted = event.standing.tainted and ruled.ruling not in (Ruling.SAME, Ruling.ACCEPT)
    key = key_for(scoped, tainted=tainted, generation=ruled.generation, own=own)
    payload, undecodable = _decode(handler, event)
    return Work(
        handler=handler,
        event=event,
        carrier=_carried_for(handler, carrier),
        key=key,
        row_subject=row_subject(subjects, handler.name, namespace_of(event), key.text),
        payload=payload,
        undecodable=undecodable,
        reply=reply,
    )


def arrival(work: Work, ruled: Ruled, start: Start) -> Arrived:
    """Return what `step` needs to know of this arrival."""
    event, handler = work.event, work.handler
    return Arrived(
        action=dispose(event.standing, ruled.ruling, usable=work.key.usable, effect=handler.effect),
        start=start,
        handler=handler.name,
        namespace=namespace_of(event),
        key=work.key.text,
        fingerprint=event.fingerprint,
        effect=handler.effect,
        standing=event.standing,
        source=event.source,
        generation=event.generation,
        position=event.position,
        withheld=event.withheld,
        undecodable=work.undecodable,
        actor=ruled.actor,
        gap=event.gap,
    )


def shown(work: Work) -> str:
    """Return what this work is, in words for a person."""
    return f"{work.handler.name} at {work.event.position!r} of {work.event.source}"


def namespace_of(event: ClassifiedEvent) -> str:
    return event.namespace or event.source


def row_subject(subjects: Subjects, handler: str, namespace: str, key: str) -> str:
    """Return the ledger subject of a key; the key itself never enters a subject."""
    return subjects.row(handler, namespace, key_token(handler, namespace, key))


def _carried_for(handler: Handler, carrier: Held) -> Held:
    if carrier.handler == handler.name:
        return carrier
    return msgspec.structs.replace(carrier, handler=handler.name)


def _decode(handler: Handler, event: ClassifiedEvent) -> tuple[object, str]:
    if event.withheld:
        return None, ""
    try:
        return handler.decode(event.payload), ""
    except Undecodable as error:
        return None, str(error)
