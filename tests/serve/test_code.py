"""Which code wrote a campaign."""

from __future__ import annotations

import pytest

from bccb import __version__
from bccb.fingerprint import Part, fingerprint
from bccb.serve.code import Code, this_code


def test_the_code_that_runs_now_is_this_one() -> None:
    assert this_code() == Code(__version__, fingerprint(Part.CAMPAIGN))
    assert this_code().is_this


@pytest.mark.parametrize("other", ["", "0" * 64])
def test_the_same_version_with_another_fingerprint_is_other_code(other: str) -> None:
    assert not Code(__version__, other).is_this


def test_another_version_with_the_same_fingerprint_is_this_code() -> None:
    assert Code("0.0.1", this_code().fingerprint).is_this


def test_a_message_shows_the_version_and_the_first_digits_of_the_fingerprint() -> None:
    assert str(Code("1.2", "0123456789abcdef")) == "bccb 1.2 (code 01234567)"
    assert str(Code("1.2")) == "bccb 1.2"
