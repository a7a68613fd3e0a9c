"""`pair`: two stacks joined by a link in memory, which may be a bad one."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from . import _asyncio, _native, _units
from ._stack import Stack
from ._virtual import VirtualEventLoop

T = TypeVar("T")

_DEFAULTS: dict[str, Any] = {
    "rate_bps": None,
    "delay_ns": 0,
    "jitter_ns": 0,
    "loss": 0.0,
    "late": 0.0,
    "late_by_ns": 0,
    "duplicate": 0.0,
    "corrupt": 0.0,
    "queue_bytes": 1_000_000,
}


def _settings(
    delay: _units.Time = 0,
    jitter: _units.Time = 0,
    loss: float = 0,
    rate: _units.Rate | None = None,
    queue: str | int | None = None,
    reorder: float = 0,
    reorder_by: _units.Time = "5ms",
    duplicate: float = 0,
    corrupt: float = 0,
) -> dict[str, Any]:
    settings = {
        "delay_ns": _units.nanoseconds(delay),
        "jitter_ns": _units.nanoseconds(jitter),
        "loss": float(loss),
        "late": float(reorder),
        "late_by_ns": _units.nanoseconds(reorder_by) if reorder else 0,
        "duplicate": float(duplicate),
        "corrupt": float(corrupt),
    }
    if rate is not None:
        settings["rate_bps"] = _units.bits_per_second(rate)
    if queue is not None:
        settings["queue_bytes"] = _units.size(queue)
    return _DEFAULTS | settings


def pair(
    *,
    delay: _units.Time = 0,
    jitter: _units.Time = 0,
    loss: float = 0,
    rate: _units.Rate | None = None,
    queue: str | int | None = None,
    reorder: float = 0,
    reorder_by: _units.Time = "5ms",
    duplicate: float = 0,
    corrupt: float = 0,
    back: dict[str, Any] | None = None,
    mtu: int = 1500,
    seed: int | None = None,
    virtual: bool = False,
    capture: str | os.PathLike[str] | None = None,
) -> Pair:
    """Two stacks, `a` and `b`, and the link between them.

    Times are seconds or text like `"50ms"`; `delay` is that of one direction. Probabilities run
    from 0 to 1. `rate` is text like `"10mbit"`, and `queue` are the bytes that wait for it. `back`
    has the settings of the direction from `b` to `a` that differ. Without any of these the link is
    perfect, and as fast as memory.

    With `virtual=True` time is virtual, and passes only while all of the program waits. The same
    `seed` then gives the same packets. `capture` is a pcapng file for the frames of the link.
    """
    there: dict[str, Any] = {
        "delay": delay,
        "jitter": jitter,
        "loss": loss,
        "rate": rate,
        "queue": queue,
        "reorder": reorder,
        "reorder_by": reorder_by,
        "duplicate": duplicate,
        "corrupt": corrupt,
    }
    both = [_settings(**there), _settings(**(there | (back or {})))]
    directions = None if both == [_DEFAULTS, _DEFAULTS] else both
    secret = secrets.randbits(128) if seed is None else seed & (2**128 - 1)
    return Pair(*_native.pair(directions, mtu, secret, virtual, capture))


class Pair:
    """Two stacks and the link between them; `with` gives the stacks and ends them."""

    def __init__(
        self,
        a: _native.StackCore,
        b: _native.StackCore,
        path: _native.Path,
        world: _native.World | None,
    ) -> None:
        self.a: Stack = Stack(_core=a)
        self.b: Stack = Stack(_core=b)
        self._path = path
        self.world: _native.World | None = world
        names = [("a", found) for found in self.a.addresses]
        names += [("b", found) for found in self.b.addresses]
        for stack in (self.a, self.b):
            stack._core.set_resolver([], [], names)

    def __enter__(self) -> tuple[Stack, Stack]:
        return self.a, self.b

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Stack]:
        return iter((self.a, self.b))

    def close(self) -> None:
        """End both stacks; their sockets fail from then on. A capture's file is complete."""
        try:
            self._path.finish()
        finally:
            self.a.close()
            self.b.close()
            if self.world is not None:
                self.world.close()

    def time(self) -> float:
        """The time in seconds: of the world in virtual time, or of `time.monotonic`."""
        return _asyncio.time_of(self.world)

    def sleep(self, seconds: _units.Time) -> None:
        """Let this much time pass. In virtual time that takes none."""
        nanoseconds = _units.nanoseconds(seconds)
        if self.world is None:
            time.sleep(nanoseconds / 1e9)
        else:
            self.world.sleep_ns(nanoseconds)

    def set_link(self, *, direction: str = "both", **settings: Any) -> None:
        """Change the link: `direction` is `"a-b"`, `"b-a"` or `"both"`; what is left out is perfect.

        A link that was made perfect cannot change; `loss=1` cuts one that was not.
        """
        numbers = {"a-b": [0], "b-a": [1], "both": [0, 1]}.get(direction)
        if numbers is None:
            raise ValueError("a direction is 'a-b', 'b-a' or 'both'")
        for number in numbers:
            self._path.set(number, _settings(**settings))
        if self.world is not None:
            # The path takes new settings when its stack looks at it.
            self.world.settle_all()

    def link_counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """What happened to the packets from `a` to `b`, and from `b` to `a`."""
        return self._path.counts(0), self._path.counts(1)

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """An event loop in the pair's time."""
        if self.world is None:
            return asyncio.SelectorEventLoop()
        return VirtualEventLoop(self.world)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """`asyncio.run`, in the pair's time."""
        with asyncio.Runner(loop_factory=self.new_event_loop) as runner:
            return runner.run(main)

    def spawn(self, target: Callable[..., object], *args: Any, **kwargs: Any) -> threading.Thread:
        """Start a thread. In virtual time one thread runs at a time, and time passes when all of
        them wait; `join` of the result waits in virtual time too."""
        if self.world is None:
            thread = threading.Thread(target=target, args=args, kwargs=kwargs, daemon=True)
        else:
            thread = WorldThread(self.world, target, args, kwargs)
        thread.start()
        return thread

    def __repr__(self) -> str:
        kind = "real time" if self.world is None else "virtual time"
        return f"<wirespeed.Pair in {kind}>"


class WorldThread(threading.Thread):
    """A thread of a world of virtual time."""

    def __init__(
        self,
        world: _native.World,
        target: Callable[..., object],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        super().__init__(target=target, args=args, kwargs=kwargs, daemon=True)
        self._world = world
        self._number = world.add_thread()

    def run(self) -> None:
        """Run the target, in turns with the other threads."""
        self._world.begin_thread(self._number)
        try:
            super().run()
        finally:
            self._world.end_thread(self._number)

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end of the thread, for at most `timeout` seconds of virtual time."""
        if self._world.join_thread(self._number, _units.timeout(timeout)):
            super().join()
