"""What goes wrong, when: one kind of fault after the other, drawn from those of the plan."""

import asyncio
from collections.abc import Awaitable, Callable

from fencepost.testing.simulator.house import House
from fencepost.testing.simulator.loop import Process


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
        }
        self._paused: list[Process] = []
        self._over = False

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
        for process in list(self._paused):
            self._wake(process)
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
            await self._pause(self._chance.choice(self._house.bridges), 20.0)

    async def _second_bridge(self) -> None:
        self._note("second bridge")
        self._house.start_bridge()

    # --- workers
    async def _kill_worker(self) -> None:
        if self._house.workers:
            self._kill(self._chance.choice(self._house.workers))
        await asyncio.sleep(self._chance.uniform(0.0, 4.0))
        self._house.start_worker()

    async def _pause_worker(self) -> None:
        if self._house.workers:
            await self._pause(self._chance.choice(self._house.workers), 20.0)

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

    # --- processes
    def _kill(self, process: Process) -> None:
        self._note(f"kill {process.name}")
        if process in self._paused:
            self._paused.remove(process)
        self._house.kill(process)

    async def _pause(self, process: Process, most_s: float) -> None:
        if process.stopped:
            return
        self._stop(process)
        await asyncio.sleep(self._chance.uniform(0.5, most_s))
        self._wake(process)

    def _stop(self, process: Process) -> None:
        self._note(f"pause {process.name}")
        process.paused = True
        self._paused.append(process)

    def _wake(self, process: Process) -> None:
        if process in self._paused:
            self._note(f"wake {process.name}")
            self._paused.remove(process)
            process.wake()

    def _note(self, text: str) -> None:
        now_s = asyncio.get_running_loop().time()
        self._house.history.faults.append(f"{now_s:8.3f} {text}")
