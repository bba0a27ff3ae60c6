"""What goes wrong, when: one kind of fault after the other, drawn from those of the plan."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from fencepost.testing.simulator.house import House
from fencepost.testing.simulator.loop import Process
from fencepost.testing.simulator.traps import BRIDGE_POINTS, WORKER_POINTS, Deed, Kind, Trap

PAUSE_S_MAX = 20.0
SET_BY_MS = (300, 5_000, 61_000, 3_600_000)
SET_BACK_MS = 20_000
"""What waits for a time waits longer by as much as the broker's clock is set back."""
TRAP_S = 10.0
"""How long a trap waits for a process to come by."""


class Nemesis:
    def __init__(self, house: House) -> None:
        self._house = house
        self._chance = house.chance
        self._faults: dict[str, Callable[[], Awaitable[None]]] = {
            "kill_bridge": self._kill_bridge,
            "pause_bridge": self._pause_bridge,
            "second_bridge": self._second_bridge,
            "kill_worker": self._kill_worker,
            "pause_worker": self._pause_worker,
            "zombie": self._zombie,
            "broker_down": self._broker_down,
            "forget_acks": self._forget_acks,
            "lost_replies": self._lost_replies,
            "lost_requests": self._lost_requests,
            "lost_acks": self._lost_acks,
            "crash_bridge": self._crash_bridge,
            "crash_worker": self._crash_worker,
            "freeze_bridge": self._freeze_bridge,
            "ghost": self._ghost,
            "deaf_bridge": self._deaf_bridge,
            "deaf_worker": self._deaf_worker,
            "set_clock": self._set_clock,
            "set_broker_clock": self._set_broker_clock,
        }

    async def torment(self) -> None:
        """Go on until cancelled."""
        plan = self._house.plan
        async with asyncio.TaskGroup() as group:
            group.create_task(self._every(plan.source.cut_every_s, self._cut))
            group.create_task(self._every(plan.source.restart_every_s, self._restart))
            for fault in plan.faults:
                every_s = plan.fault_every_s * len(plan.faults)
                group.create_task(self._every(every_s, self._faults[fault]))

    def heal(self) -> None:
        """End all that goes on, so that what is left has to come to rest."""
        house = self._house
        house.traps.clear()
        for process in [*house.bridges, *house.workers]:
            self._wake(process)
            house.connection_of(process).deafness = 0.0
        vices = house.broker.vices
        vices.reply_lost = vices.request_lost = vices.ack_lost = 0.0
        if not house.broker.up.is_set():
            house.broker.start()
        if not house.bridges:
            house.start_bridge()
        while len(house.workers) < house.plan.workers:
            house.start_worker()
        self._note("heal")

    async def _every(self, mean_s: float, fault: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0.2, 1.8) * mean_s)
            await fault()

    # --- the source
    async def _cut(self) -> None:
        self._note("cut")
        self._house.source.cut()

    async def _restart(self) -> None:
        replica = self._chance.randrange(self._house.plan.source.replicas)
        self._note(f"restart {replica}")
        self._house.source.restart(replica)

    # --- bridges
    async def _kill_bridge(self) -> None:
        if self._house.bridges:
            self._kill(self._chance.choice(self._house.bridges))
        await asyncio.sleep(self._chance.uniform(0.0, 4.0))
        if not self._house.bridges:
            self._house.start_bridge()

    async def _pause_bridge(self) -> None:
        if self._house.bridges:
            await self._pause(self._chance.choice(self._house.bridges))

    async def _second_bridge(self) -> None:
        self._note("second bridge")
        self._house.start_bridge()

    async def _crash_bridge(self) -> None:
        """Kill a bridge at one of its crash points."""
        point = self._chance.choice(BRIDGE_POINTS)
        await self._caught(Trap(Kind.BRIDGE, point, Deed.KILL, self._chance.randint(1, 3)))
        await asyncio.sleep(self._chance.uniform(0.0, 4.0))
        self._house.mend()

    async def _freeze_bridge(self) -> None:
        """Stop a bridge at one of its crash points, and mostly have another take over meanwhile."""
        point = self._chance.choice(BRIDGE_POINTS)
        process = await self._caught(Trap(Kind.BRIDGE, point, Deed.PAUSE))
        if process is None:
            return
        await asyncio.sleep(self._chance.uniform(0.0, 4.0))
        if self._chance.random() < 0.7:
            self._house.start_bridge()
        await asyncio.sleep(self._chance.uniform(0.0, PAUSE_S_MAX))
        self._wake(process)

    async def _deaf_bridge(self) -> None:
        if self._house.bridges:
            await self._deafen(self._chance.choice(self._house.bridges))

    # --- workers
    async def _kill_worker(self) -> None:
        if self._house.workers:
            self._kill(self._chance.choice(self._house.workers))
        await asyncio.sleep(self._chance.uniform(0.0, 4.0))
        self._house.start_worker()

    async def _pause_worker(self) -> None:
        if self._house.workers:
            await self._pause(self._chance.choice(self._house.workers))

    async def _zombie(self) -> None:
        """Pause a worker past its leases, and kill another just when the first is back."""
        if not self._house.workers:
            return
        process = self._chance.choice(self._house.workers)
        if process.stopped:
            return
        if len(self._house.workers) < 2:
            self._house.start_worker()
        pool = self._house.settings.pool
        self._stop(process)
        await asyncio.sleep(pool.lease_s + self._chance.uniform(0.5, 4.0))
        self._wake(process)
        await asyncio.sleep(self._chance.uniform(0.0, 1.0))
        others = [one for one in self._house.workers if one is not process]
        if others:
            self._kill(self._chance.choice(others))
            await asyncio.sleep(1.0)
            self._house.start_worker()

    async def _deaf_worker(self) -> None:
        if self._house.workers:
            await self._deafen(self._chance.choice(self._house.workers))

    async def _crash_worker(self) -> None:
        """Kill a worker at one of its crash points."""
        point, nth = self._chance.choice(WORKER_POINTS), self._chance.randint(1, 3)
        if point == "verified":
            # A checker is asked only about what somebody has left behind, which is seldom twice.
            nth = 1
            if await self._caught(Trap(Kind.WORKER, "ran", Deed.KILL)) is not None:
                self._house.start_worker()
            await asyncio.sleep(self._house.settings.pool.handler_timeout_s)
        caught = await self._caught(Trap(Kind.WORKER, point, Deed.KILL, nth))
        await asyncio.sleep(self._chance.uniform(0.0, 4.0))
        if caught is not None:
            self._house.start_worker()

    async def _ghost(self) -> None:
        """Stop a worker that has run, past its lease; kill its successor, and have it come back.

        The successor dies with its first write durable and nothing else done, so what the first
        one says when it comes back must not be the last word.
        """
        house = self._house
        ghost = await self._caught(Trap(Kind.WORKER, "ran", Deed.PAUSE))
        if ghost is None:
            return
        if len(house.workers) < 2:
            house.start_worker()
        await asyncio.sleep(house.settings.pool.lease_s)
        heir = await self._caught(Trap(Kind.WORKER, "written", Deed.KILL, spare=ghost))
        self._wake(ghost)
        await asyncio.sleep(self._chance.uniform(0.0, 4.0))
        if heir is not None:
            house.start_worker()

    # --- the broker
    async def _broker_down(self) -> None:
        self._note("broker down")
        self._house.broker.stop()
        await asyncio.sleep(self._chance.uniform(1.0, 20.0))
        if self._chance.random() < 0.3:
            self._house.broker.forget_acks(asyncio.get_running_loop().time() - 21.0)
        self._house.broker.start()
        self._note("broker up")

    async def _forget_acks(self) -> None:
        self._note("acks forgotten")
        self._house.broker.forget_acks(asyncio.get_running_loop().time() - 1.0)

    async def _lost_replies(self) -> None:
        self._house.broker.vices.reply_lost = 0.2
        await asyncio.sleep(3.0)
        self._house.broker.vices.reply_lost = 0.0

    async def _lost_requests(self) -> None:
        self._house.broker.vices.request_lost = 0.2
        await asyncio.sleep(3.0)
        self._house.broker.vices.request_lost = 0.0

    async def _lost_acks(self) -> None:
        self._house.broker.vices.ack_lost = 0.3
        await asyncio.sleep(5.0)
        self._house.broker.vices.ack_lost = 0.0

    # --- clocks
    async def _set_clock(self) -> None:
        """Set the wall clock of one machine, forward or back."""
        processes = [*self._house.bridges, *self._house.workers]
        if processes:
            process = self._chance.choice(processes)
            by_ms = self._chance.choice((-1, 1)) * self._chance.choice(SET_BY_MS)
            self._house.world_of(process).skew_ms += by_ms
            self._note(f"clock of {process.name} set by {by_ms} ms")

    async def _set_broker_clock(self) -> None:
        """Set the broker's clock, or have another node lead whose clock is another one."""
        by_ms = self._chance.choice((*SET_BY_MS, -SET_BACK_MS))
        self._house.broker.clock_ahead_ms += by_ms
        self._note(f"clock of the broker set by {by_ms} ms")

    # --- processes
    async def _caught(self, trap: Trap) -> Process | None:
        """Lay a trap for a while; return the process that was caught in it, if any."""
        self._house.traps.append(trap)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TRAP_S):
                await trap.sprung.wait()
        if trap in self._house.traps:
            self._house.traps.remove(trap)
        if trap.caught is not None:
            self._note(f"{trap.deed} {trap.caught.name} at {trap.point}")
        return trap.caught

    def _kill(self, process: Process) -> None:
        self._note(f"kill {process.name}")
        self._house.kill(process)

    async def _pause(self, process: Process) -> None:
        if process.stopped:
            return
        self._stop(process)
        await asyncio.sleep(self._chance.uniform(0.5, PAUSE_S_MAX))
        self._wake(process)

    async def _deafen(self, process: Process) -> None:
        """Let a process's writes be carried out and often not answered, for some leases."""
        connection = self._house.connection_of(process)
        self._note(f"deaf {process.name}")
        connection.deafness = 0.6
        await asyncio.sleep(self._chance.uniform(0.2, 3.0) * self._house.settings.pool.lease_s)
        self._note(f"hearing {process.name}")
        connection.deafness = 0.0

    def _stop(self, process: Process) -> None:
        self._note(f"pause {process.name}")
        process.paused = True

    def _wake(self, process: Process) -> None:
        if process.paused and not process.dead:
            self._note(f"wake {process.name}")
            process.wake()

    def _note(self, text: str) -> None:
        now_s = asyncio.get_running_loop().time()
        self._house.history.faults.append(f"{now_s:8.3f} {text}")
