from __future__ import annotations

from bccb.policies import POLICIES
from bccb.report.looks import STYLES, look_of


def test_known_policies_differ_in_colour_and_in_marker() -> None:
    colours, markers, _ = zip(*STYLES.values(), strict=True)
    assert len(set(colours)) == len(set(markers)) == len(STYLES)


def test_a_policy_looks_the_same_every_time_known_or_not() -> None:
    for name in ("bccb", "one-that-is-new"):
        assert look_of(name) == look_of(name)


def test_every_policy_that_one_can_use_has_a_look_of_its_own() -> None:
    assert {name for name, spec in POLICIES.items() if not spec.needs_effects} <= {*STYLES}
