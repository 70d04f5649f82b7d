"""What the names of columns and the values of arms suggest about their role."""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ARM = _words(
    "treatment treated treat arm variant variation condition assignment assigned experiment "
    "bucket intervention"
)
MAYBE_ARM = _words(
    "group segment coupon offer promotion promo campaign message mail mailing email discount test "
    "version action voucher creative banner cohort cell ab script"
)
OUTCOME = _words(
    "outcome conversion conversions converted convert purchase purchased bought buy buyer sale "
    "sold ordered order response responded responder target label success subscribed booked "
    "renewed donated retained stayed upgraded"
)
MAYBE_OUTCOME = _words("visit visited click clicked")
MONEY = _words(
    "revenue spend spent sales amount value turnover basket gmv margin profit income total"
)
COST = _words("cost costs expense expenses bid fee charge price")
PROBABILITY = _words("probability propensity prob pscore")
AFTER = _words(
    "after post redeemed redemption redeem redeems followup delivered opened exposure exposed "
    "refund refunded"
)
BEFORE = _words(
    "past previous previously prev prior last history historic historical before pre lifetime "
    "avg average recency since ever first"
)
TRUTH = _words("effect effects uplift tau cate ite")  # known in simulations alone
IDENTIFIER = _words("id ids uuid guid hash phone")
SPLIT = _words("split fold partition")
SPLIT_VALUES = _words("train training test testing valid validation dev")

CONTROL = _words("control ctrl placebo holdout untreated baseline")
NOTHING = frozenset({"none", "nothing", "no treatment", "left alone", "not treated"})
NO = frozenset({"no", "n", "false", "0"})


def words_of(name: str) -> list[str]:
    """The words of a name, in lower case.

    >>> words_of("daysToRedemption"), words_of("spend_after-mail.2")
    (['days', 'to', 'redemption'], ['spend', 'after', 'mail', '2'])
    """
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    return re.findall(r"[a-z]+|[0-9]+", spaced.lower())


def has(name: str, words: frozenset[str]) -> bool:
    """Whether one of these words is in a name.

    >>> has("last_purchase", BEFORE), has("purchased", BEFORE)
    (True, False)
    """
    return not words.isdisjoint(words_of(name))


def is_before(name: str) -> bool:
    """Whether a name tells of the time before the treatment."""
    return has(name, BEFORE)


def is_after(name: str) -> bool:
    """Whether a name tells of the time after the treatment.

    >>> is_after("days_to_redemption"), is_after("hours_to_open"), is_after("pages_before_mail")
    (True, True, False)
    """
    spoken = " ".join(words_of(name))
    lasts = re.search(r"\b(seconds|minutes|hours|days|weeks|time) (to|until|till)\b", spoken)
    return not is_before(name) and (has(name, AFTER) or lasts is not None)


def control_points(value: str) -> int:
    """How much a value of the arm column says "left alone", from 0 to 3.

    >>> [control_points(value) for value in ("Control", "No E-Mail", "no", "10 off")]
    [3, 2, 1, 0]
    """
    text = value.strip().lower()
    if not CONTROL.isdisjoint(words_of(text)):
        return 3
    if text in NOTHING or re.match(r"(no|without)[ _-]+\w", text):
        return 2
    return int(text in NO)


def arm_points(name: str, values: list[str]) -> int:
    """How much a column says "this is the arm", from its name and its values.

    >>> arm_points("Promotion", ["Yes", "No"]), arm_points("history_segment", ["low", "high"])
    (3, -1)
    """
    points = 4 if has(name, ARM) else 2 if has(name, MAYBE_ARM) else 0
    points += max(map(control_points, values), default=0)
    other = is_before(name) or is_after(name) or has(name, OUTCOME | MAYBE_OUTCOME | COST)
    return points - 3 * other
