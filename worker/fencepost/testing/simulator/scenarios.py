"""Plans written by hand, each around one thing that may go wrong; the seed varies the rest.

A drawn plan meets such a thing now and then. These meet it again and again, so that a safety rule
that holds there is not held by luck, and one that is taken away is missed soon.
"""

import msgspec

from fencepost.testing.simulator.plan import Plan, SourcePlan

NEVER_S = 1e6

HONEST = SourcePlan(
    replicas=1,
    window=1_000,
    declares_generation=True,
    declares_window=True,
    restart="zero",
    unknown="410",
    keys="durable",
    keys_missing=0.0,
    reannounces_max=0,
    scheme="integer",
    cut_every_s=NEVER_S,
    restart_every_s=NEVER_S,
)
"""A source that loses nothing and proves it."""

_CALM = Plan(
    seed=0,
    source=HONEST,
    faults=(),
    fault_every_s=NEVER_S,
    people=False,
    mirror=True,
    workers=2,
)


def ghosts(seed: int) -> Plan:
    """Workers come back after their leases, whose successors died with one write done."""
    return msgspec.structs.replace(_CALM, seed=seed, faults=("ghost",), fault_every_s=4.0)


def late_claims(seed: int) -> Plan:
    """Workers hear late that their claims stand, and people answer as soon as they may."""
    return msgspec.structs.replace(
        _CALM,
        seed=seed,
        faults=("deaf_worker",),
        fault_every_s=6.0,
        people=True,
        manner="punctual",
        slow_s=4.5,
        tasks=100,
    )


def haste(seed: int) -> Plan:
    """Handlers are cut off with a call still on its way, and people answer at once."""
    return msgspec.structs.replace(
        _CALM,
        seed=seed,
        faults=("kill_worker",),
        fault_every_s=6.0,
        people=True,
        manner="hasty",
        slow_s=4.5,
        flight_s=3.0,
    )


def set_clocks(seed: int) -> Plan:
    """Machines' clocks are set while handlers run, and their events are told again meanwhile."""
    source = msgspec.structs.replace(HONEST, restart_every_s=5.0, reannounces_max=12)
    return msgspec.structs.replace(
        _CALM,
        seed=seed,
        source=source,
        faults=("set_clock",),
        fault_every_s=1.0,
        checker=True,
        frank=True,
        slow_s=4.5,
        tasks=100,
    )


def set_broker_clocks(seed: int) -> Plan:
    """The broker's clock is set while handlers run, as where it elects and nodes' clocks differ."""
    plan = set_clocks(seed)
    return msgspec.structs.replace(plan, faults=("set_broker_clock",), fault_every_s=8.0)


def leaky_joins(seed: int) -> Plan:
    """A source that loses events at its join, which nobody knows of."""
    source = msgspec.structs.replace(
        HONEST, declares_generation=False, join="unknown", leaks_s=2.0, cut_every_s=4.0
    )
    return msgspec.structs.replace(_CALM, seed=seed, source=source, tasks=100)


def short_windows(seed: int) -> Plan:
    """The same, with a log that forgets soon, and often begins anew."""
    source = msgspec.structs.replace(
        HONEST,
        window=3,
        declares_generation=False,
        declares_window=bool(seed % 2),
        restart="aligned",
        unknown="greater",
        leaks_s=2.0,
        cut_every_s=4.0,
        restart_every_s=8.0,
    )
    return msgspec.structs.replace(_CALM, seed=seed, source=source)


def wide_joins(seed: int) -> Plan:
    """A source that is known to lose events at its join, for longer than an audit takes to open."""
    source = msgspec.structs.replace(
        HONEST, declares_generation=False, join="racy", leaks_s=0.5, cut_every_s=4.0
    )
    return msgspec.structs.replace(_CALM, seed=seed, source=source, tasks=100)


def disordered(seed: int) -> Plan:
    """Such a source, often cut, whose ids have no order and whose log forgets.

    An audit may go on alone then, and what it leaked itself came on the connection that was cut.
    """
    plan = wide_joins(seed)
    source = msgspec.structs.replace(
        plan.source,
        window=8,
        scheme="opaque",
        declares_window=False,
        restart="random",
        unknown="greater",
        leaks_s=1.0,
        cut_every_s=3.0,
        restart_every_s=20.0,
    )
    return msgspec.structs.replace(plan, source=source)


def keyless(seed: int) -> Plan:
    """Events have no keys, the source proves little, and people know which of its logs is which."""
    source = msgspec.structs.replace(
        HONEST,
        window=20,
        declares_generation=False,
        declares_window=False,
        unknown="greater",
        keys="none",
        cut_every_s=4.0,
        restart_every_s=20.0,
    )
    return msgspec.structs.replace(
        _CALM, seed=seed, source=source, people=True, manner="knowing", heads=2
    )


def keyless_and_late(seed: int) -> Plan:
    """The same with joins that lose: what comes late is announced again behind later seams.

    Two logs, and many cuts: people have much to say of seams, and say different things of them.
    """
    plan = keyless(seed)
    source = msgspec.structs.replace(
        plan.source,
        replicas=2,
        declares_generation=True,
        restart="random",
        unknown="410",
        join="racy",
        leaks_s=2.0,
    )
    return msgspec.structs.replace(plan, source=source, mirror=False, heads=1, tasks=100)
