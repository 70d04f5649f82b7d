"""The order of tests: the long ones first, in every process that runs tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")


def in_order(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """The same tests, those with the mark ``slow_first`` before the others in each process.

    Those that share fixtures of their package or module stay together.
    """
    seconds: dict[pytest.Item, float] = {}
    together: dict[pytest.Collector | None, list[pytest.Item]] = {}
    for item in items:
        if mark := item.get_closest_marker("slow_first"):
            seconds[item] = mark.args[0] if mark.args else mark.kwargs.get("seconds", 1.0)
            sharing = item.getparent(pytest.Package) or item.getparent(pytest.Module)
            together.setdefault(sharing, []).append(item)
    slow = [(sum(seconds[item] for item in group), group) for group in together.values()]
    return deal(slow, [item for item in items if item not in seconds], processes)


def deal(slow: Iterable[tuple[float, list[T]]], quick: list[T], processes: int) -> list[T]:
    """Groups of slow things, each with its seconds, and quick things, for so many processes.

    pytest-xdist cuts the order into equal parts, one for each process. So each part begins with
    slow groups: the longest group first, and each to the process that has the least to do.

    >>> deal([(1.0, ["a"]), (5.0, ["b"]), (2.0, ["c", "d"])], ["e", "f", "g"], 2)
    ['b', 'e', 'f', 'c', 'd', 'a', 'g']
    """
    hands: list[list[T]] = [[] for _ in range(processes)]
    busy = [0.0] * processes
    for seconds, group in sorted(slow, key=lambda pair: -pair[0]):
        least = busy.index(min(busy))
        hands[least] += group
        busy[least] += seconds
    order: list[T] = []
    left, rest = sum(map(len, hands)) + len(quick), iter(quick)
    for number, hand in enumerate(hands):
        size = left // (processes - number)
        left -= size
        order += hand
        order += (thing for _, thing in zip(range(size - len(hand)), rest, strict=False))
    return [*order, *rest]
