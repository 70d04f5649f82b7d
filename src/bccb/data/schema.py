"""The schema of a log: which column of a file plays which part, with presets for public trials."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from types import MappingProxyType

from bccb import checks
from bccb.errors import InputError
from bccb.money import cost_in_micros
from bccb.types import Log

MOST_LISTED = 20  # names in one error message
OPTIONAL = ("probability", "status", "positive")  # names that a log may do without
METADATA_KEY = "bccb"  # in the metadata of Parquet files that describe their own columns


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a file make a log.

    Values of the treatment column are compared as text: ``0``, ``0.0`` and ``"0"`` are all ``"0"``,
    and ``True`` is ``"true"``. Single fields of a preset are changed with `dataclasses.replace`:

    >>> from dataclasses import replace
    >>> replace(preset("criteo"), outcome="visit").outcome
    'visit'
    """

    treatment: str  # the column with the arm
    control: str  # its value for "left alone"
    outcome: str  # a column of numbers in the range of bccb.outcome, of true/false, or of two texts
    features: tuple[str, ...] = ()  # empty: every column that no other field names
    treatments: tuple[str, ...] = ()  # actions 1..K in this order, other rows are dropped;
    # empty: every value except the control, sorted
    cost: str | tuple[str, ...] | float | None = None  # a column, one for each treatment, the
    # same cost for all, or the paper's log-normal costs
    excluded: tuple[str, ...] = ()  # never features: identifiers, what happened after treatment
    effects: tuple[str, ...] = ()  # the true effect of each treatment, known in simulations
    shares: tuple[float, ...] = ()  # of actions 0..K, where the design of the trial gives them
    probability: str | None = None  # a column: how likely the action was, in a log of decisions
    status: str | None = None  # a column: why an outcome is missing, in a log of the service; rows
    # without an outcome are then left out, not refused
    positive: str | None = None  # the text that counts as outcome 1, where the word itself does not
    # say so, as yes, true and converted do

    def __post_init__(self) -> None:
        self._check_kinds()
        taken = (self.treatment, self.outcome, *self.effects, *self.excluded)
        taken += self.probability_columns + self.status_columns
        for feature in self.features:
            if feature in taken:
                raise InputError("feature", feature, "none of " + quoted(taken))
        if self.treatment == self.outcome:
            raise InputError("outcome", self.outcome, "another column than the treatment")
        if self.probability in (self.treatment, self.outcome):
            allowed = "another column than the treatment and the outcome"
            raise InputError("probability", self.probability, allowed)
        if self.control in self.treatments:
            raise InputError("control", self.control, "none of " + quoted(self.treatments))
        if isinstance(self.cost, (int, float)):
            cost_in_micros(self.cost)
        if self.shares and not (min(self.shares) > 0 and abs(sum(self.shares) - 1) < 1e-6):
            raise InputError("shares", self.shares, "all above 0, with the sum 1")

    def _check_kinds(self) -> None:
        """Refuse what is no name, no names or no number where there must be one."""
        for field in ("treatment", "control", "outcome", *OPTIONAL):
            name = getattr(self, field)
            missing = name is None and field in OPTIONAL
            if not missing and not (isinstance(name, str) and name):
                raise InputError(field, name, "a name")
        lists = {field: getattr(self, field) for field in ("features", "treatments", "excluded")}
        for field, value in {**lists, "effects": self.effects, "cost": self.cost_columns}.items():
            text = isinstance(value, tuple) and all(isinstance(name, str) for name in value)
            if not text or "" in value or len(set(value)) < len(value):
                raise InputError(field, value, "names, not empty and all different")
        checks.instance("shares", self.shares, tuple, "a tuple of numbers")
        numbers = [("shares", share) for share in self.shares]
        if self.cost is not None and not isinstance(self.cost, str | tuple):
            numbers.append(("cost", self.cost))
        for field, value in numbers:
            checks.number(field, value)

    def metadata(self) -> dict[str, str]:
        """What a Parquet file keeps of them, so that readers need no options."""
        return {METADATA_KEY: json.dumps(asdict(self))}

    @property
    def cost_columns(self) -> tuple[str, ...]:
        """The names of the columns with costs, none where costs are not in the file."""
        if isinstance(self.cost, str):
            return (self.cost,)
        return self.cost if isinstance(self.cost, tuple) else ()

    @property
    def probability_columns(self) -> tuple[str, ...]:
        """The name of the column with probabilities, none where they were not kept."""
        return () if self.probability is None else (self.probability,)

    @property
    def status_columns(self) -> tuple[str, ...]:
        """The name of the column that says why an outcome is missing, none without one."""
        return () if self.status is None else (self.status,)

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
            "feature column": self.features,
        }
        for field, names in named.items():
            for name in names:
                if name not in present:
                    raise InputError(field, name, one_of(name, present))
        others = {name for names in named.values() for name in names} | set(self.excluded)
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
            excluded=("visit", "conversion", "spend"),
        ),
        "starbucks": Columns(
            treatment="Promotion",
            control="No",
            outcome="purchase",
            features=tuple(f"V{j}" for j in range(1, 8)),
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


def columns_of(log: Log) -> Columns:
    """The columns under which a log is written; names that clash are refused by `Columns`."""
    one = log.treatments == 1
    prices = tuple("cost" if one else f"cost:{name}" for name in log.treatment_names)
    effects = tuple("effect" if one else f"effect:{name}" for name in log.treatment_names)
    return Columns(
        treatment="treatment",
        control="control",
        outcome="outcome",
        features=log.feature_names,
        treatments=log.treatment_names,
        cost=prices,
        excluded=prices,
        effects=() if log.effects is None else effects,
        shares=() if log.known_shares is None else tuple(log.known_shares.tolist()),
        probability=None if log.probabilities is None else "probability",
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
