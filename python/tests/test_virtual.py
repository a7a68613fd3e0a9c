"""Virtual time: it passes only while all of the program waits, and a seed replays everything."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import wirespeed

DAY = 24 * 3600


def test_the_five_lines() -> None:
    with wirespeed.pair(delay="50ms", loss=0.01, seed=1, virtual=True) as (a, b):
        listener = b.create_server(("", 80))
        client = a.create_connection((b.address, 80))
        server, _ = listener.accept()
        client.sendall(b"hello")
        assert server.recv(100) == b"hello"
        assert a.time() >= 0.15


def test_a_call_takes_a_round_trip() -> None:
    with wirespeed.pair(delay="50ms", virtual=True) as (a, b):
        with b.create_server(("", 80)):
            before = a.time()
            a.create_connection((b.address, 80)).close()
        assert a.time() - before == pytest.approx(0.1, abs=0.001)


def test_a_timeout_of_a_day_takes_no_time() -> None:
    with wirespeed.pair(virtual=True) as (a, b):
        listener = b.create_server(("", 80))
        listener.settimeout(DAY)
        began, before = time.monotonic(), a.time()
        with pytest.raises(TimeoutError):
            listener.accept()
        assert a.time() - before == pytest.approx(DAY, abs=1e-6)
        assert time.monotonic() - began < 20


def test_a_deadlock_is_an_error() -> None:
    with wirespeed.pair(virtual=True) as (_, b):
        listener = b.create_server(("", 80))
        with pytest.raises(wirespeed.Deadlock, match="nothing will ever happen"):
            listener.accept()


def test_a_thread_from_outside_is_refused() -> None:
    pair = wirespeed.pair(virtual=True)
    ended = pair.spawn(pair.sleep, "1s")
    caught: list[Exception] = []

    def outside() -> None:
        try:
            pair.b.create_server(("", 80)).accept()
        except RuntimeError as error:
            caught.append(error)

    pair.sleep("100ms")
    thread = threading.Thread(target=outside)
    thread.start()
    thread.join(20)
    ended.join()
    pair.close()
    assert len(caught) == 1 and "spawn" in str(caught[0])


def test_threads_take_turns() -> None:
    """Sleepers wake in the order of their times, whatever the machine does."""
    for _ in range(5):
        pair = wirespeed.pair(virtual=True)
        order: list[float] = []

        def sleeper(seconds: float) -> None:
            for _ in range(3):
                pair.sleep(seconds)
                order.append(round(pair.time(), 3))

        threads = [pair.spawn(sleeper, seconds) for seconds in (0.3, 0.1, 0.25)]
        for thread in threads:
            thread.join()
        pair.close()
        assert order == [0.1, 0.2, 0.25, 0.3, 0.3, 0.5, 0.6, 0.75, 0.9]


def test_join_has_a_timeout() -> None:
    pair = wirespeed.pair(virtual=True)
    thread = pair.spawn(pair.sleep, 10)
    thread.join(1)
    assert thread.is_alive() and pair.time() == pytest.approx(1, abs=0.001)
    thread.join()
    assert not thread.is_alive() and pair.time() == pytest.approx(10, abs=0.001)
    pair.close()


def test_the_link_can_be_cut_and_repaired() -> None:
    pair = wirespeed.pair(delay="10ms", virtual=True, seed=3)
    a, b = pair
    listener = b.create_server(("", 80))
    client = a.create_connection((b.address, 80))
    server, _ = listener.accept()
    pair.set_link(loss=1)
    client.sendall(b"through the cut")
    server.settimeout(5)
    with pytest.raises(TimeoutError):
        server.recv(100)
    pair.set_link(delay="10ms")
    server.settimeout(None)
    assert server.recv(100) == b"through the cut"
    assert pair.link_counts()[0]["lost"] > 0
    pair.close()


async def _day(pair: wirespeed.Pair) -> int:
    """A request a minute for a day, over a connection that lasts."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line[::-1].strip() + b"\n")
            await writer.drain()
        writer.close()

    answers = 0
    async with await pair.b.start_server(serve, port=80):
        reader, writer = await pair.a.open_connection("b", 80)
        loop = asyncio.get_running_loop()
        ends = loop.time() + DAY
        while loop.time() < ends:
            writer.write(b"%d\n" % answers)
            assert await reader.readline() == (b"%d" % answers)[::-1] + b"\n"
            answers += 1
            await asyncio.sleep(60)
        writer.close()
        await writer.wait_closed()
    return answers


def _run(seed: int, file: Path) -> str:
    link = {"delay": "40ms", "jitter": "10ms", "loss": 0.05, "rate": "1mbit", "reorder": 0.02}
    pair = wirespeed.pair(**link, seed=seed, virtual=True, capture=file)  # type: ignore[arg-type]
    assert pair.run(_day(pair)) >= 1400
    assert pair.link_counts()[0]["lost"] > 10
    pair.close()
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_day_is_replayed_by_its_seed(tmp_path: Path) -> None:
    began = time.monotonic()
    first, again = _run(7, tmp_path / "1.pcapng"), _run(7, tmp_path / "2.pcapng")
    assert (tmp_path / "1.pcapng").stat().st_size > 100_000
    assert first == again
    assert first != _run(8, tmp_path / "3.pcapng")
    assert time.monotonic() - began < 100


def test_asyncio_deadlock() -> None:
    pair = wirespeed.pair(virtual=True)

    async def never() -> None:
        await asyncio.Event().wait()

    with pytest.raises(wirespeed.Deadlock):
        pair.run(never())
    pair.close()


def test_executors_work_in_virtual_time() -> None:
    pair = wirespeed.pair(virtual=True)

    def compute() -> int:
        time.sleep(0.2)
        return 5

    async def main(executor: ThreadPoolExecutor | None) -> int:
        return await asyncio.get_running_loop().run_in_executor(executor, compute)

    async def then_never() -> None:
        await main(None)
        await asyncio.Event().wait()

    async def forgets() -> None:
        future = asyncio.get_running_loop().run_in_executor(None, compute)
        await asyncio.sleep(1)
        future.cancel()

    assert pair.run(main(None)) == 5
    pair.run(forgets())
    with ThreadPoolExecutor() as own:
        assert pair.run(main(own)) == 5
    with pytest.raises(wirespeed.Deadlock):
        pair.run(then_never())
    pair.close()


def test_udp_is_lost_by_the_seed() -> None:
    def arrived(seed: int) -> list[int]:
        with wirespeed.pair(loss=0.3, delay="1ms", seed=seed, virtual=True) as (a, b):
            sender = a.socket(type=socket.SOCK_DGRAM)
            receiver = b.socket(type=socket.SOCK_DGRAM)
            receiver.bind(("", 9))
            receiver.settimeout(1)
            for number in range(100):
                sender.sendto(bytes([number]), (b.address, 9))
            found = []
            try:
                while True:
                    found.append(receiver.recv(1)[0])
            except TimeoutError:
                return found

    first = arrived(1)
    assert 50 < len(first) < 90
    assert arrived(1) == first != arrived(2)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"delay": "5 parsecs"}, "not a time"),
        ({"delay": -1}, "not negative"),
        ({"loss": 2}, "from 0 to 1"),
        ({"loss": float("nan")}, "from 0 to 1"),
        ({"rate": "fast"}, "not a rate"),
        ({"rate": 0, "delay": 1}, "rate of zero"),
        ({"mtu": 5}, "MTU"),
    ],
)
def test_wrong_settings(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        wirespeed.pair(**settings)  # type: ignore[arg-type]


def test_the_fixture(wirespeed_pair: object) -> None:
    assert callable(wirespeed_pair)
    a, b = wirespeed_pair(delay="1ms", virtual=True)
    with b.create_server(("", 80)), a.create_connection(("b", 80)) as client:
        assert client.getpeername()[1] == 80


def test_a_capture_that_cannot_be_written_names_its_file() -> None:
    with pytest.raises(FileNotFoundError, match="/nowhere/x.pcapng: .*name a file in a folder"):
        wirespeed.pair(capture="/nowhere/x.pcapng")
