"""`VirtualEventLoop`: an event loop of asyncio in virtual time.

The loop's clock is the world's, and instead of sleeping the loop lets the world pass to its next
event.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple, Unpack

from ._asyncio import Readiness
from ._native import Deadlock, Poller, World

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _VirtualSelector(selectors.PollSelector):
    """Lets the time of a world pass instead of sleeping."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.poller: Poller | None = None
        # Calls that work in executors.
        self.helpers = 0
        # Does the loop wait for the end of its executor?
        self.ending = False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(timeout if self.ending else 0)
        if found or self.ending or (timeout is not None and timeout <= 0):
            return found
        nanoseconds = None if timeout is None else max(1, round(timeout * 1e9))
        poller = self.poller if self.poller is not None else Poller()
        try:
            self._world.wait_for(poller, nanoseconds)
        except Deadlock:
            # Executors, and descriptors that the program added, may still wake the loop.
            if len(self.get_map()) <= 2 and not self.helpers:
                raise
            return super().select(None)
        return super().select(0)


class VirtualEventLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is that of a world.

    `await asyncio.sleep(3600)` takes no time at all, and timeouts come when the world's clock says
    so. The same program with the same seed does the same in each run.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._waits = _VirtualSelector(world)
        super().__init__(self._waits)
        self._clock_resolution = 1e-9
        self._waits.poller = Readiness.of(self).poller

    def time(self) -> float:
        """The time of the world in seconds."""
        return self._world.time_ns() / 1e9

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: Unpack[Ts]
    ) -> asyncio.Future[T]:
        """Run a function in a thread of the executor, in the system's time."""

        def done(_: asyncio.Future[T]) -> None:
            self._waits.helpers -= 1

        future = super().run_in_executor(executor, func, *args)
        self._waits.helpers += 1
        future.add_done_callback(done)
        return future

    async def shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:
        """Wait, in the system's time, until the executor has ended."""
        self._waits.ending = True
        try:
            await super().shutdown_default_executor(*args, **kwargs)
        finally:
            self._waits.ending = False
