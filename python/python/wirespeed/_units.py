"""Times and rates as programs write them: numbers, or text with a unit."""

from __future__ import annotations

import datetime
import re

Time = str | int | float | datetime.timedelta
Rate = str | int | float

_NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
_BITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
_SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "kib": 2**10, "mib": 2**20}
_LONGEST = 2**62


def _number(value: str, units: dict[str, int], what: str) -> float:
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]+)\s*", value)
    if match is None or match[2].lower() not in units:
        raise ValueError(f"{value!r} is not {what}: write a number and one of {', '.join(units)}")
    return float(match[1]) * units[match[2].lower()]


def _whole(value: float, what: str) -> int:
    if not 0 <= value < _LONGEST:
        raise ValueError(f"{what} is not negative, and shorter than a century")
    return round(value)


def nanoseconds(value: Time) -> int:
    """A time: seconds as a number, a `timedelta`, or text like `"50ms"`."""
    if isinstance(value, str):
        return _whole(_number(value, _NANOSECONDS, "a time"), "a time")
    if isinstance(value, datetime.timedelta):
        return _whole(value.total_seconds() * 1e9, "a time")
    return _whole(value * 1e9, "a time")


def timeout(seconds: float | None) -> int | None:
    """A timeout of a call; `None` is no limit. A timeout above zero never becomes zero."""
    if seconds is None:
        return None
    return max(nanoseconds(seconds), int(seconds > 0))


def bits_per_second(value: Rate) -> int:
    """A rate: bits per second as a number, or text like `"10mbit"`."""
    if isinstance(value, str):
        value = _number(value, _BITS, "a rate")
    return _whole(value, "a rate")


def size(value: str | int) -> int:
    """A size: bytes as a number, or text like `"64kib"`."""
    if isinstance(value, str):
        return _whole(_number(value, _SIZES, "a size"), "a size")
    return _whole(value, "a size")
