"""Users to decide on, as a request names them: one after the other, or in columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from bccb.encoding import Value
from bccb.errors import InputError
from bccb.kernels.users import first_refused
from bccb.money import COST_RANGE, MOST_COST, costs_up
from bccb.serve.problem import ProblemError, invalid, missing
from bccb.serve.terms import Terms
from bccb.types import FEATURE_RANGE, MOST_FEATURE, Floats, Ints
from bccb.wire import DecisionRequest, PlainDecisionRequest, encode

Users: TypeAlias = "UserRows | UserColumns"
MOST_MICROS = 2 * MOST_COST  # more does not matter, but must fit an int64


@lru_cache(10_000)  # prices repeat
def _micros(text: str) -> int:
    return min(costs_up("cost", text), MOST_MICROS)


@dataclass(frozen=True, slots=True)
class UserRows:
    """Users one after the other, each with features and costs; or a single one."""

    users: Sequence[DecisionRequest | PlainDecisionRequest]
    ids: list[str]
    single: bool  # not a list
    first: int = 0  # the place of the first user in the whole list

    @classmethod
    def of(
        cls, users: Sequence[DecisionRequest | PlainDecisionRequest], single: bool = False
    ) -> UserRows:
        """The users of a request."""
        return cls(users, [user.decision_id for user in users], single)

    def part(self, begin: int, end: int) -> UserRows:
        """Some of them."""
        first = self.first + begin
        return replace(self, users=self.users[begin:end], ids=self.ids[begin:end], first=first)

    def _where(self, i: int) -> str:
        return "" if self.single else f"{self.first + i}."

    def id_field(self, i: int) -> str:
        """How a message calls the id of user i."""
        return f"{self._where(i)}decision_id"

    def read(self, terms: Terms) -> tuple[Floats, Ints]:
        """What the policy reads of each user and costs in micros, one row per user, checked."""
        users, d, K = self.users, len(terms.features), len(terms.treatments)
        try:
            rows = [terms.pick_features(user.features) for user in users]
            prices = [[_micros(user.costs[name]) for name in terms.treatments] for user in users]
            extra = any(len(user.features) > d or len(user.costs) > K for user in users)
        except KeyError:
            extra = True
        if extra:
            for i, user in enumerate(users):
                _check_names(user.features, terms.features, f"{self._where(i)}features", terms)
                _check_names(user.costs, terms.treatments, f"{self._where(i)}costs")
        if terms.encoding is None:
            features = np.array(rows, np.float64).reshape(len(users), d)
        else:
            given = {name: [user.features[name] for user in users] for name in terms.features}
            features = _encoded(terms, given, lambda i, name: f"{self._where(i)}features.{name}")
        costs = np.array(prices, np.int64)
        bad = first_refused(features, costs)
        if bad >= 0:
            user, where = users[bad], self._where(bad)
            named = [(f"{where}features.{name}", user.features[name]) for name in terms.features]
            priced = [(f"{where}costs.{name}", user.costs[name]) for name in terms.treatments]
            raise _refusal(named, priced)
        return features, costs

    def raw(self, terms: Terms) -> list[bytes]:
        """The values of each user as they came, where the campaign encodes them."""
        if terms.encoding is None:
            return [b""] * len(self.users)
        return [encode([user.features[name] for name in terms.features]) for user in self.users]


@dataclass(frozen=True, slots=True)
class UserColumns:
    """Users in columns: a list per feature and per treatment, as long as the list of ids."""

    ids: list[str]
    features: Mapping[str, Sequence[Value]]
    costs: dict[str, list[str]]
    first: int = 0  # the place of the first user in the whole list

    def part(self, begin: int, end: int) -> UserColumns:
        """Some of them."""
        return UserColumns(
            self.ids[begin:end],
            {name: values[begin:end] for name, values in self.features.items()},
            {name: values[begin:end] for name, values in self.costs.items()},
            self.first + begin,
        )

    def id_field(self, i: int) -> str:
        """How a message calls the id of user i."""
        return f"decision_ids.{self.first + i}"

    def read(self, terms: Terms) -> tuple[Floats, Ints]:
        """What the policy reads of each user and costs in micros, one row per user, checked."""
        _check_names(self.features, terms.features, "features", terms)
        _check_names(self.costs, terms.treatments, "costs")
        if terms.encoding is None:
            features = np.empty((len(self.ids), len(terms.features)))
            for j, name in enumerate(terms.features):
                features[:, j] = self.features[name]
        else:
            at = self.first
            features = _encoded(terms, self.features, lambda i, name: f"features.{name}.{at + i}")
        costs = np.empty((len(self.ids), len(terms.treatments)), np.int64)
        for k, name in enumerate(terms.treatments):
            costs[:, k] = [_micros(text) for text in self.costs[name]]
        bad = first_refused(features, costs)
        if bad >= 0:
            i = self.first + bad
            named = [(f"features.{name}.{i}", self.features[name][bad]) for name in terms.features]
            priced = [(f"costs.{name}.{i}", self.costs[name][bad]) for name in terms.treatments]
            raise _refusal(named, priced)
        return features, costs

    def raw(self, terms: Terms) -> list[bytes]:
        """The values of each user as they came, where the campaign encodes them."""
        if terms.encoding is None:
            return [b""] * len(self.ids)
        columns = [self.features[name] for name in terms.features]
        return [encode(values) for values in zip(*columns, strict=True)]


def _encoded(
    terms: Terms,
    given: Mapping[str, Sequence[Value]],
    field: Callable[[int, str], str],
) -> Floats:
    """The numbers of users; ``field`` is how a message calls a feature of user i."""
    columns: list[Floats] = []
    for name, encoder in terms.encoders.items():
        values = given[name]
        try:
            columns.append(np.array([encoder(value) for value in values], np.float64))
        except InputError:
            for i, value in enumerate(values):
                _check_value(encoder, value, field(i, name))
    return np.ascontiguousarray(np.hstack(columns))


def _check_value(encoder: Callable[[Value], Any], value: Value, field: str) -> None:
    """Refuse a value that cannot be encoded, under the name of its field."""
    try:
        encoder(value)
    except InputError as error:
        detail = field + str(error).removeprefix(error.field)
        raise ProblemError(422, "invalid-field", detail, field) from None


def _refusal(
    features: Sequence[tuple[str, Value]], costs: Sequence[tuple[str, str]]
) -> ProblemError:
    """Which field of a user is out of its range."""
    for field, value in features:
        if isinstance(value, float) and not abs(value) <= MOST_FEATURE:
            return invalid(field, value, FEATURE_RANGE)
    field, text = next(each for each in costs if not 1 <= _micros(each[1]) <= MOST_COST)
    return invalid(field, text, COST_RANGE)


def _check_names(
    given: Mapping[str, Any], names: Sequence[str], field: str, terms: Terms | None = None
) -> None:
    """Refuse a name that is missing, or one that the campaign does not know."""
    for name in names:
        if name not in given:
            encoded = terms is not None and terms.encoding is not None
            hint = ": every feature is named, with null where it is not known" if encoded else ""
            raise missing(f"{field}.{name}", hint)
    known = set(names)
    for name in given:
        if name not in known:
            allowed = "absent: the campaign does not know it"
            raise invalid(f"{field}.{name}", given[name], allowed)
