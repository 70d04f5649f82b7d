"""Overlap: for which users a log shows what a treatment caused, and when it is too thin."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bccb.evaluate.estimates import effective_size
from bccb.types import Flags, Floats, Ints, Log

# Below it a user could hardly have been left alone, or treated: what the default leaves to chance.
LEAST_CHANCE = 0.005
ROUNDING = 1e-9  # in parts: with several treatments what it leaves is a sum
RARER = 0.1  # of the mean chance: where a hold-out is small for everybody, it is small by design
FEWEST = 10  # effective conversions in an arm, below which a normal interval is no guide
FAR = 4.0  # standard errors that weights add up to too much or too little: hardly by chance
# Effective users in an arm, below which a handful of rows decides both the estimate and its error.
FEWEST_USERS = 30
MOST_SHARE = 0.5  # of the value of an arm that one order may bring
WORTH_A_WARNING = 0.01  # of the treated users or of the spend
NO_CHANCE = 1e-6  # of being treated
MANY = 0.1  # share of users who had no more than that
UNBALANCED = "The weights do not add up, so no estimate is given."
ALONE, TREATED = "The users left alone", "The treated users"


def chance_of(log: Log, actions: Ints | int) -> Floats:
    """How likely each row was to get ``actions``; NaN where the log does not say.

    A log keeps the probability of the action that was taken. With one treatment the
    other probability follows from it; with several it does not. Without probabilities the log is
    taken for a randomised trial, with the same shares for every user.

    >>> log = Log(np.zeros((2, 1)), [0, 1], [0, 1], [[1], [1]], probabilities=[0.75, 0.75])
    >>> chance_of(log, 0).tolist()
    [0.75, 0.25]
    """
    if log.probabilities is None:
        return np.broadcast_to(log.shares[actions], log.users)
    other = 1.0 - log.probabilities if log.treatments == 1 else np.full(log.users, np.nan)
    return np.where(log.actions == actions, log.probabilities, other)


def within_overlap(chance: Floats) -> Flags | None:
    """Which rows had a real chance; None where that is not known of every row."""
    if np.isnan(chance).any():
        return None
    least = min(LEAST_CHANCE, RARER * float(chance.mean())) * (1.0 - ROUNDING)
    return np.asarray((chance > 0) & (chance >= least))


@dataclass(frozen=True, slots=True)
class OutsideOverlap:
    """The share of the treated users, and of what they cost, that a log says nothing about."""

    users: float
    spend: float


def overlap_warning(outside: OutsideOverlap | None, treated: str) -> list[str]:
    """Warn where more than a small share of the ``treated`` is left out."""
    if outside is None or max(outside.users, outside.spend) < WORTH_A_WARNING:
        return []
    return [
        f"{outside.users:.1%} of the {treated}, with {outside.spend:.1%} of the spend, had no real "
        f"chance (below {LEAST_CHANCE:.1%}) of being left alone, or of being treated: there is "
        "nobody to compare them with, so they are left out of the estimates. To leave a few users "
        "in a hundred alone at random, always, would help."
    ]


def no_balance(arm: str, weights: Floats, users: int, variance: float) -> list[str]:
    """Why no estimate can be trusted: the weights of an arm miss the users they stand for."""
    total = float(weights.sum())
    if abs(total - users) <= FAR * math.sqrt(variance + users):
        return []
    return [
        f"{arm} stand for {total:,.0f} users by their probabilities, but should for {users:,}: the "
        "probabilities are not those of the actions in this log, or many users had no chance of "
        f"that action. {UNBALANCED}"
    ]


def chance_warning(log: Log) -> list[str]:
    """Warn where many users were left alone who could not have been treated.

    >>> log = Log(np.zeros((2, 1)), [0, 1], [0, 1], [[1], [1]], probabilities=[1.0, 0.75])
    >>> chance_warning(log)[0][:53]
    '50% of the users were left alone and had no chance (b'
    """
    if log.probabilities is None:
        return []
    share = float(((log.actions == 0) & (1.0 - log.probabilities < NO_CHANCE)).mean())
    if share < MANY:
        return []
    return [
        f"{share:.0%} of the users were left alone and had no chance (below 1 in 1,000,000) of "
        "being treated, as when the money is spent, or while a cost cap holds it back. Such a log "
        "tells what its own treatments caused, but hardly what other policies would have: use a "
        "trial for that."
    ]


def no_support(arm: str, weights: Floats) -> list[str]:
    """Why an arm is too small for any estimate; empty where it is not.

    >>> no_support("The users left alone", np.array([900.0, 1, 1]))[0][:58]
    'The users left alone tell as much as 1.0 users with equal '
    """
    users = effective_size(weights)
    if users >= FEWEST_USERS:
        return []
    return [
        f"{arm} tell as much as {users:.1f} users with equal chances (of {FEWEST_USERS} needed): "
        "so few decide any estimate, and its interval too, so none is given. More users, or more "
        "of them left to chance (pooled-trees with a larger reserve), would help."
    ]


def no_support_for_amounts(arm: str, weights: Floats, amounts: Floats) -> list[str]:
    """Why the amounts of an arm do not tell its value; empty where they do.

    A few large orders tell as little as a few orders.

    >>> no_support_for_amounts("The treated users", np.ones(4), np.array([9e4, 20.0, 35.0, 0.0]))
    ['An order of 90,000 is 99.9% of what the treated users brought: it alone decides any \
estimate, so none is given. Check it; without that row, or counting conversions, there are \
estimates.']
    """
    value = np.abs(weights * amounts)
    conversions = effective_size(value)
    if conversions >= FEWEST:
        return []
    largest = int(value.argmax())
    share = float(value[largest] / value.sum()) if value.any() else 0.0
    if share >= MOST_SHARE:
        return [
            f"An order of {amounts[largest]:,.0f} is {share:.1%} of what {arm[0].lower()}{arm[1:]} "
            "brought: it alone decides any estimate, so none is given. Check it; without that row, "
            "or counting conversions, there are estimates."
        ]
    return [
        f"{arm} brought the equivalent of {conversions:.1f} equal amounts (of {FEWEST} needed): so "
        "few decide any estimate, so none is given. More users would help, or counting conversions."
    ]


def thin_warning(arm: str, weights: Floats, outcomes: Floats) -> list[str]:
    """Warn where an arm has too few conversions for a normal interval."""
    conversions = effective_size(weights * outcomes)
    if conversions >= FEWEST:
        return []
    return [
        f"{arm} have the equivalent of {conversions:.1f} conversions (of {FEWEST} needed): too few "
        "to say, and the intervals are a rough guide at best. More users, or more of them left to "
        "chance (pooled-trees with a larger reserve), would help."
    ]
