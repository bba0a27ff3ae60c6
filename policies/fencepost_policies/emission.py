"""What an emitted event is: where it stands, and how much may be believed of it.

An app has no lineage of its own: nothing of it is resumed, so nothing but the key tells whether an
emitted event was applied. That is what `reoriginated` with a durable key means everywhere else:
absent it runs, present it is skipped, and without a key that counts it is refused. What is emitted
under a doubt is no better and no worse for it: the app vouches for it, by key.
"""

from fencepost_schemas.emission import Emission, Origin
from fencepost_schemas.event import ClassifiedEvent, KeyScope, fingerprint_of
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import app_source, digest_token

CHANCE_CHARS = 8


def emitted_event(emission: Emission, origin: Origin, time: str) -> ClassifiedEvent:
    """Return the event; emitted once more by the same row it has the same place."""
    return ClassifiedEvent(
        source=app_source(origin.app),
        generation=generation_of(origin.row),
        standing=Standing.REORIGINATED,
        verdict=Standing.REORIGINATED,
        type=emission.type,
        position=f"{emission.type}/{emission.key}",
        fingerprint=fingerprint_of(emission.payload),
        time=time,
        payload=emission.payload,
        key=emission.key,
        key_scope=KeyScope.DURABLE,
        namespace=origin.namespace,
        size=len(emission.payload),
        fills=origin.fills,
        gap=origin.gap,
    )


def generation_of(row: str) -> str:
    """Return the generation of what one row emits: a ruling on some of it reaches no other's."""
    return f"0001-{digest_token('emitted', row, chars=CHANCE_CHARS)}"
