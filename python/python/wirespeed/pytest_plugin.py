"""A fixture for pytest: pairs of stacks that end with the test.

    def test_a_slow_link(wirespeed_pair):
        a, b = wirespeed_pair(delay="100ms", virtual=True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ._pair import Pair, pair


@pytest.fixture
def wirespeed_pair() -> Iterator[Callable[..., Pair]]:
    """Makes pairs, with the arguments of `wirespeed.pair`; they end with the test."""
    made: list[Pair] = []

    def make(**settings: Any) -> Pair:
        made.append(pair(**settings))
        return made[-1]

    yield make
    for one in reversed(made):
        one.close()
