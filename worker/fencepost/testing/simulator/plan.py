"""What one seed chooses: what the source is like, what it tells, and what may go wrong."""

from random import Random
from typing import Any, Literal

import msgspec

from fencepost.settings import Settings

SOURCE = "orders"
HANDLER_TIMEOUT_S = 4.0
URL = "http://source.invalid/events"
GENERATION_HEADER, WINDOW_HEADER = "x-generation", "x-oldest-id"

Restart = Literal["zero", "random", "aligned"]
Unknown = Literal["410", "all", "live", "greater"]
Join = Literal["atomic", "racy", "unknown"]
Manner = Literal["careful", "knowing", "punctual", "hasty"]


class SourcePlan(msgspec.Struct, frozen=True):
    """What the source is like. `unknown` is what it does with a position that it does not hold."""

    replicas: int
    window: int
    declares_generation: bool
    declares_window: bool
    restart: Restart
    unknown: Unknown
    keys: Literal["durable", "none"]
    keys_missing: float
    reannounces_max: int
    scheme: Literal["integer", "opaque"]
    cut_every_s: float
    restart_every_s: float
    join: Join = "unknown"
    """What the configuration says of the step from replayed to live events."""
    leaks_s: float = 0.0
    """Up to how long after its replay a connection takes part; what is announced meanwhile it never
    gets. Above 0 only where the join is not declared atomic, and the bridge probes: a declared
    generation and window say nothing of it."""


class Plan(msgspec.Struct, frozen=True):
    """Everything that a seed fixes before it begins."""

    seed: int
    source: SourcePlan
    faults: tuple[str, ...]
    fault_every_s: float
    people: bool
    mirror: bool
    """A second handler, whose effect may be repeated."""
    workers: int
    manner: Manner = "careful"
    """How people answer: see `people`."""
    heads: int = 1
    """How many of them sit at the desk, without a word to one another."""
    slow_s: float = 3.0
    """What a handler may take on either side of its call; its limit is HANDLER_TIMEOUT_S."""
    flight_s: float = 0.5
    """How long a call may be on its way to the sink."""
    barrier: bool = False
    checker: bool = False
    """Whether the handler marks its effect, and whether somebody can say that it happened."""
    frank: bool = False
    """Whether that somebody says what there is to see, whoever may still act."""
    tasks: int = 40
    busy_s: float = 60.0


FAULTS = (
    "kill_bridge",
    "pause_bridge",
    "second_bridge",
    "kill_worker",
    "pause_worker",
    "zombie",
    "broker_down",
    "forget_acks",
    "lost_replies",
    "lost_requests",
    "lost_acks",
)


LATER_FAULTS = (
    "crash_bridge",
    "crash_worker",
    "freeze_bridge",
    "ghost",
    "deaf_bridge",
    "deaf_worker",
)
CLOCK_FAULTS = ("set_clock", "set_broker_clock")
_JOINS: tuple[Join, ...] = ("atomic", "racy", "unknown")
PAUSES = ("pause_worker", "zombie", "ghost")


def draw_plan(seed: int) -> Plan:
    """Return the plan of a seed: the second floor's, with clocks that are set."""
    chance = Random(f"third floor {seed}")
    plan = draw_second_floor(seed)
    set_clocks = tuple(fault for fault in CLOCK_FAULTS if chance.random() < 0.4)
    if plan.manner == "punctual":
        # What a person sees at the end of a quarantine is true only if that was a whole one.
        set_clocks = tuple(fault for fault in set_clocks if fault != "set_broker_clock")
    frank = not any(fault in PAUSES for fault in plan.faults) and chance.random() < 0.5
    return msgspec.structs.replace(plan, faults=(*plan.faults, *set_clocks), frank=frank)


def draw_second_floor(seed: int) -> Plan:
    """Return the first floor's plan, with what came to the simulator after it."""
    chance = Random(f"second floor {seed}")
    plan = draw_first_floor(seed)
    faults = (*plan.faults, *(fault for fault in LATER_FAULTS if chance.random() < 0.4))
    manners: list[Manner] = ["careful", "knowing"]
    if not any(fault in PAUSES for fault in faults):
        manners.append("punctual")
    source = plan.source
    if not (source.declares_generation and source.declares_window):
        join = chance.choice(_JOINS)
        leaks_s = chance.choice((0.0, 0.5, 2.0)) if join != "atomic" else 0.0
        source = msgspec.structs.replace(source, join=join, leaks_s=leaks_s)
    return msgspec.structs.replace(
        plan,
        source=source,
        faults=faults,
        manner=chance.choice(manners),
        heads=chance.choice((1, 1, 2)),
        slow_s=chance.choice((3.0, 3.0, 4.5)),
        flight_s=chance.choice((0.5, 0.5, 3.0)),
        barrier=chance.random() < 0.6,
        checker=chance.random() < 0.4,
    )


def draw_first_floor(seed: int) -> Plan:
    """Return the plan that this seed had at first, so that what it once showed can be played again.

    Each enables a random part of what there was: nothing is ever drawn here in addition.
    """
    chance = Random(f"plan {seed}")
    keys: Literal["durable", "none"] = "durable" if chance.random() < 0.6 else "none"
    source = SourcePlan(
        replicas=2 if chance.random() < 0.3 else 1,
        window=chance.choice((3, 8, 20, 1_000)),
        declares_generation=chance.random() < 0.5,
        declares_window=chance.random() < 0.5,
        restart=chance.choice(("zero", "random", "aligned")),
        unknown=chance.choice(("410", "all", "live", "greater")),
        keys=keys,
        keys_missing=0.05 if keys == "durable" and chance.random() < 0.4 else 0.0,
        reannounces_max=chance.choice((0, 4, 12)),
        scheme=chance.choice(("integer", "opaque")),
        cut_every_s=chance.choice((4.0, 10.0, 30.0)),
        restart_every_s=chance.choice((8.0, 20.0, 1_000.0)),
    )
    faults = tuple(fault for fault in FAULTS if chance.random() < 0.5)
    return Plan(
        seed=seed,
        source=source,
        faults=faults,
        fault_every_s=chance.choice((3.0, 6.0, 12.0)),
        people=chance.random() < 0.5,
        mirror=chance.random() < 0.7,
        workers=chance.choice((1, 2, 3)),
    )


def settings_for(plan: Plan) -> Settings:
    """Return the configuration: what the source does not say is not in it."""
    source = plan.source
    speech: dict[str, Any] = {"scheme": source.scheme, "join": source.join}
    if source.declares_generation:
        speech["generation_header"] = GENERATION_HEADER
    if source.declares_window:
        speech["window_header"] = WINDOW_HEADER
    document = {
        "app": "simulated",
        "bridge": {
            "retry_first_s": 0.2,
            "retry_longest_s": 4.0,
            "stall_s": 15.0,
            # Seeds found what they found without it.
            "quiet_s": 0.0,
            "connection_age_s": 0.0,
        },
        "pool": {
            "slots": 6,
            "handler_timeout_s": HANDLER_TIMEOUT_S,
            "lease_s": 6.0,
            "ack_wait_s": 8.0,
            "retry_first_s": 0.2,
            "retry_longest_s": 2.0,
            "drain_s": 5.0,
        },
        "sources": {
            SOURCE: {
                "url": URL,
                "keys": source.keys,
                "key": "/key" if source.keys != "none" else "",
                "plain": speech,
            }
        },
    }
    return msgspec.convert(document, Settings)
