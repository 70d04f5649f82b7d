from __future__ import annotations

from bccb.report.looks import STYLES, look_of


def test_known_policies_differ_in_colour_and_in_marker() -> None:
    colours, markers, _ = zip(*STYLES.values(), strict=True)
    assert len(set(colours)) == len(set(markers)) == len(STYLES)


def test_a_policy_looks_the_same_every_time_known_or_not() -> None:
    for name in ("bccb", "one-that-is-new"):
        assert look_of(name) == look_of(name)
