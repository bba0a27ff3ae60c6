"""Every scheme by the name that a configuration gives it."""

from functools import cache

from fencepost_policies.schemes.integer import Integer
from fencepost_policies.schemes.lexicographic import LEXICOGRAPHIC
from fencepost_policies.schemes.ms_seq import MS_SEQ
from fencepost_policies.schemes.opaque import Opaque
from fencepost_policies.schemes.prefixed import Prefixed
from fencepost_policies.schemes.scheme import Scheme
from fencepost_policies.schemes.stamped import ULID, UUID7
from fencepost_policies.schemes.time_tag import TimeTag
from fencepost_policies.schemes.timestamp import Timestamp
from fencepost_policies.schemes.vector import Vector

SCHEMES: dict[str, Scheme] = {
    "opaque": Opaque(),
    "integer": Integer(),
    "integer-dense": Integer(dense=True),
    "time-tag": TimeTag(),
    "ms-seq": MS_SEQ,
    "timestamp": Timestamp(),
    "lexicographic": LEXICOGRAPHIC,
    "ulid": ULID,
    "uuidv7": UUID7,
    "vector": Vector(),
}


@cache
def scheme_for(name: str, id_pattern: str = "") -> Scheme:
    """Return the scheme of this name, over the positions in ids of this pattern if there is one."""
    scheme = SCHEMES[name]
    return Prefixed(id_pattern, scheme) if id_pattern else scheme
