"""The schema of a log: which column of a file plays which part, with presets for public trials."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import TypeAlias

from bccb import checks
from bccb.data.costs import lognormal
from bccb.errors import InputError
from bccb.money import cost_in_micros
from bccb.outcome import kind_of
from bccb.types import Ints, Log

MOST_LISTED = 20  # names in one error message
CHARGED_ON = "charged_on"  # the column that says how treatments were charged, in written logs
OPTIONAL = ("probability", "status", "charge", "positive")  # names that a log may do without
LISTS = ("features", "treatments", "excluded", "effects")  # of names
# A column, a number for all users, one of them for each treatment, or the paper's costs
Cost: TypeAlias = str | float | Sequence[str | float] | Callable[[int, int], Ints]
COST_ALLOWED = "a column, a number, a list with one of them for each treatment, or lognormal"
METADATA_KEY = "bccb"  # in the metadata of Parquet files that describe their own columns


def _check_names(field: str, names: Sequence[str]) -> None:
    text = isinstance(names, tuple) and all(isinstance(name, str) for name in names)
    if not text or "" in names or len(set(names)) < len(names):
        raise InputError(field, names, "names, not empty and all different")


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a file or a frame make a log, and how they are read.

    Values of the treatment column are compared as text: ``0``, ``0.0`` and ``"0"`` are all ``"0"``,
    and ``True`` is ``"true"``. What is left out of a file that tells its own columns, as those of
    `write_log` and of the service do, is as the file says. Single fields of a preset are changed
    with `dataclasses.replace`:

    >>> from dataclasses import replace
    >>> replace(preset("criteo"), outcome="visit").outcome
    'visit'
    """

    treatment: str = ""  # the column with the arm
    control: str = ""  # its value for "left alone"
    outcome: str = ""  # a column of numbers, true/false or two texts
    features: tuple[str, ...] = ()  # empty: every column that no other field names
    treatments: tuple[str, ...] = ()  # actions 1..K in this order, other rows are dropped;
    # empty: every value except the control, sorted
    cost: Cost | None = None  # what treating a user costs, also where nobody was treated
    excluded: tuple[str, ...] = ()  # never features: identifiers, what happened after treatment
    effects: tuple[str, ...] = ()  # the true effect of each treatment, known in simulations
    shares: tuple[float, ...] = ()  # of actions 0..K, where the design of the trial gives them
    probability: str | None = None  # a column: how likely the action was, in a log of decisions
    status: str | None = None  # a column: why an outcome is missing, in a log of the service; rows
    # without an outcome are then left out, not refused
    charge: str | None = None  # a column: how treatments were charged, in a log of the service
    positive: str | None = None  # the text that counts as outcome 1, where the word itself does not
    # say so, as yes, true and converted do
    impute: bool = False  # whether missing features are filled in
    closed: bool = False  # whether to read only the decisions before the oldest that is open
    kind: str = ""  # of the outcomes: "conversion" or "amount"; empty: amounts where a number is
    # below 0 or above 1

    def __post_init__(self) -> None:
        for field in (*LISTS, "shares", "cost"):
            if isinstance(getattr(self, field), list):
                object.__setattr__(self, field, tuple(getattr(self, field)))
        self._check_kinds()
        self._check_cost()
        taken = (self.treatment, self.outcome, *self.effects, *self.excluded)
        taken += self.probability_columns + self.status_columns + self.charge_columns
        for feature in self.features:
            if feature in taken:
                raise InputError("feature", feature, "none of " + quoted(taken))
        if self.treatment and self.treatment == self.outcome:
            raise InputError("outcome", self.outcome, "another column than the treatment")
        if self.probability in (self.treatment, self.outcome):
            allowed = "another column than the treatment and the outcome"
            raise InputError("probability", self.probability, allowed)
        if self.control in self.treatments:
            raise InputError("control", self.control, "none of " + quoted(self.treatments))
        if self.shares and not (min(self.shares) > 0 and abs(sum(self.shares) - 1) < 1e-6):
            raise InputError("shares", self.shares, "all above 0, with the sum 1")

    def _check_kinds(self) -> None:
        """Refuse what is no name, no names or no number where there must be one."""
        for field in ("treatment", "control", "outcome"):
            checks.instance(field, getattr(self, field), str, "a name")
        for field in OPTIONAL:
            name = getattr(self, field)
            if name is not None and not (isinstance(name, str) and name):
                raise InputError(field, name, "a name")
        for field in LISTS:
            _check_names(field, getattr(self, field))
        checks.instance("shares", self.shares, tuple, "a list of numbers")
        for share in self.shares:
            checks.number("shares", share)
        checks.instance("kind", self.kind, str, "a name")
        if self.kind:
            kind_of(self.kind, "kind")
        for field in ("impute", "closed"):
            checks.instance(field, getattr(self, field), bool, "true or false")

    def _check_cost(self) -> None:
        cost = self.cost
        if cost is None or cost is lognormal:
            return
        if not isinstance(cost, str | float | int | tuple) or cost in ("", ()):
            raise InputError("cost", cost, COST_ALLOWED)
        _check_names("cost", self.cost_columns)
        for one in cost if isinstance(cost, tuple) else (cost,):
            if not isinstance(one, str):
                cost_in_micros(checks.number("cost", one))

    def metadata(self) -> dict[str, str]:
        """What a Parquet file keeps of them, so that readers need no options."""
        return {METADATA_KEY: json.dumps(asdict(self))}

    @property
    def cost_columns(self) -> tuple[str, ...]:
        """The names of the columns with costs, none where costs are not in the file."""
        costs = self.cost if isinstance(self.cost, tuple) else (self.cost,)
        return tuple(one for one in costs if isinstance(one, str))

    @property
    def probability_columns(self) -> tuple[str, ...]:
        """The name of the column with probabilities, none where they were not kept."""
        return () if self.probability is None else (self.probability,)

    @property
    def status_columns(self) -> tuple[str, ...]:
        """The name of the column that says why an outcome is missing, none where none does."""
        return () if self.status is None else (self.status,)

    @property
    def charge_columns(self) -> tuple[str, ...]:
        """The name of the column that says how treatments were charged, none where none does."""
        return () if self.charge is None else (self.charge,)

    def features_among(self, present: Sequence[str]) -> tuple[str, ...]:
        """The features of a file with these columns; a named column that is absent is refused.

        >>> Columns("arm", "none", "sale").features_among(["age", "arm", "sale", "visits"])
        ('age', 'visits')
        """
        named = {
            "treatment column": (self.treatment,),
            "outcome column": (self.outcome,),
            "cost column": self.cost_columns,
            "effect column": self.effects,
            "probability column": self.probability_columns,
            "status column": self.status_columns,
            "charge column": self.charge_columns,
            "feature column": self.features,
            # with the features named it says nothing, and presets exclude what a file may lack
            "excluded column": () if self.features else self.excluded,
        }
        for field, names in named.items():
            for name in names:
                if name not in present:
                    raise InputError(field, name, one_of(name, present))
        others = {name for names in named.values() for name in names}
        return self.features or tuple(name for name in present if name not in others)

    def check_arms(self, arms: Sequence[str]) -> None:
        """Refuse costs, effects or shares that are not as many as these arms 0..K demand."""
        for field, values, expected in (
            ("cost", self.cost, len(arms) - 1),
            ("effects", self.effects, len(arms) - 1),
            ("shares", self.shares, len(arms)),
        ):
            if values and isinstance(values, tuple) and len(values) != expected:
                raise InputError(field, values, f"{expected} values, for the arms {quoted(arms)}")


PRESETS = MappingProxyType(
    {
        "criteo": Columns(
            treatment="treatment",
            control="0",
            outcome="conversion",
            features=tuple(f"f{j}" for j in range(12)),
            cost=lognormal,
            excluded=("conversion", "visit", "exposure"),
        ),
        "hillstrom": Columns(
            treatment="segment",
            control="No E-Mail",
            outcome="visit",
            features=(
                "recency", "history_segment", "history", "mens", "womens", "zip_code", "newbie",
                "channel",
            ),
            cost=lognormal,
            excluded=("visit", "conversion", "spend"),
        ),
        "starbucks": Columns(
            treatment="Promotion",
            control="No",
            outcome="purchase",
            features=tuple(f"V{j}" for j in range(1, 8)),
            cost=lognormal,
            excluded=("ID", "split"),
        ),
    }
)  # fmt: skip


def preset(name: str) -> Columns:
    """The columns of a public trial, as its file is published.

    >>> preset("hillstrom").control
    'No E-Mail'
    """
    if not isinstance(name, str) or name not in PRESETS:
        raise InputError("preset", name, one_of(name, PRESETS))
    return PRESETS[name]


def cost_columns(treatments: tuple[str, ...]) -> tuple[str, ...]:
    """The column with the cost of each treatment, in logs that are written.

    >>> cost_columns(("call",)), cost_columns(("call", "mail"))
    (('cost',), ('cost:call', 'cost:mail'))
    """
    return ("cost",) if len(treatments) == 1 else tuple(f"cost:{name}" for name in treatments)


def columns_of(log: Log) -> Columns:
    """The columns under which a log is written; names that clash are refused by `Columns`."""
    one = log.treatments == 1
    prices = cost_columns(log.treatment_names)
    effects = tuple("effect" if one else f"effect:{name}" for name in log.treatment_names)
    return Columns(
        treatment="treatment",
        control="control",
        outcome="revenue" if log.amounts else "outcome",
        features=log.feature_names,
        treatments=log.treatment_names,
        cost=prices,
        excluded=prices,
        effects=() if log.effects is None else effects,
        shares=() if log.known_shares is None else tuple(log.known_shares.tolist()),
        probability=None if log.probabilities is None else "probability",
        kind=str(log.kind),
        charge=CHARGED_ON if log.charge else None,
    )


def one_of(name: str, names: Iterable[str]) -> str:
    """The allowed names, for an error message, and the one that was probably meant.

    >>> one_of("vist", ["visit", "spend"])
    "one of 'visit', 'spend'; did you mean 'visit'?"
    """
    names = list(names)
    close = get_close_matches(str(name), names, n=1)
    return f"one of {quoted(names)}" + (f"; did you mean {close[0]!r}?" if close else "")


def quoted(names: Iterable[str]) -> str:
    """Names in quotes, those beyond the twentieth only counted."""
    names = list(names)
    rest = len(names) - MOST_LISTED
    listed = ", ".join(repr(name) for name in names[:MOST_LISTED])
    return f"{listed} and {rest} more" if rest > 0 else listed
