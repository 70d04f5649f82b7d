"""The nouns that every layer shares: arrays, and the log of a trial or of decisions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bccb import outcome
from bccb.encoding import Encoding
from bccb.errors import InputError
from bccb.money import LEAST_COST, MICROS, MOST_COST

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]


def as_floats(field: str, values: Any) -> Floats:
    """The values as an array of numbers; refused if they are not numbers."""
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":
            _refuse_none(field, array)
        if array.dtype.kind in "biufO":
            return array.astype(np.float64, copy=False)
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(field, values, "numbers")


def _refuse_none(field: str, array: npt.NDArray[np.object_]) -> None:
    """Refuse None, which NumPy would turn into NaN, and name its place."""
    for place, value in np.ndenumerate(array):
        if value is None:
            where = f"[{', '.join(map(str, place))}]" if place else ""
            raise InputError(f"{field}{where}", None, "a number: fill in what is missing")


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """The log of a randomised trial, or of decisions whose probabilities were kept.

    It has one row per user: n users, d features, K treatments.

    Action 0 is the control ("leave alone"), actions 1..K are the treatments.

    >>> log = Log(
    ...     features=np.zeros((4, 2)),
    ...     actions=np.array([0, 1, 1, 0]),
    ...     outcomes=np.array([0.0, 1.0, 0.0, 0.0]),
    ...     micros=np.full((4, 1), 500_000),
    ... )
    >>> log.users, log.treatments, log.shares.tolist()
    (4, 1, [0.5, 0.5])
    """

    features: Floats  # (n, d)
    actions: Ints  # (n,)
    outcomes: Floats  # (n,), in the range of bccb.outcome
    micros: Ints  # (n, K), what each treatment would cost for each user; see bccb.money
    feature_names: tuple[str, ...] = ()
    treatment_names: tuple[str, ...] = ()
    known_shares: Floats | None = None  # (K+1,), if known from the design of the trial
    effects: Floats | None = None  # (n, K), the true effects, known only in simulations
    probabilities: Floats | None = None  # (n,), of the action that was taken, if they were kept
    encoding: Encoding | None = None  # how the features were made, where they come from a file
    kind: str = outcome.Kind.CONVERSION  # of the outcomes: "conversion" or "amount"
    charge: str = ""  # how its treatments were charged, as `Payment.text`, where the log says so

    def __post_init__(self) -> None:
        for field in (*ROWS, "known_shares"):
            if getattr(self, field) is not None or field in ROWS[:4]:
                object.__setattr__(self, field, self._array(field))
        self._check_shapes()
        if not isinstance(self.encoding, Encoding | None):
            raise InputError("encoding", self.encoding, "an Encoding, or left out")
        d, K = self.features.shape[1], self.treatments
        columns = (
            tuple(f"x{j}" for j in range(d)) if self.encoding is None else self.encoding.columns
        )
        for field, count, names in (
            ("feature_names", d, columns),
            ("treatment_names", K, tuple(f"treatment-{k}" for k in range(1, K + 1))),
        ):
            given = getattr(self, field)
            try:
                object.__setattr__(self, field, tuple(given) or names)
            except TypeError:
                raise InputError(field, given, "a list of names") from None
            if len(getattr(self, field)) != count:
                raise InputError(f"the number of {field}", len(getattr(self, field)), f"{count}")
        self._check_values()

    def _array(self, field: str) -> Floats | Ints:
        value = getattr(self, field)
        if field not in WHOLE:
            floats = np.ascontiguousarray(as_floats(field, value))
            # kernels would be compiled once more for arrays that are read-only, as files give them
            return floats if floats.flags.writeable else floats.copy()
        try:
            array = np.ascontiguousarray(value)
        except ValueError:
            raise InputError(field, value, "numbers") from None
        with np.errstate(invalid="ignore"):  # NaN and infinity are refused below
            whole = array.astype(np.int64) if array.dtype.kind in "iufb" else None
        if whole is None or not (whole == array).all():
            raise InputError(field, value, "whole numbers")
        return whole

    def _check_shapes(self) -> None:
        if self.features.ndim != 2 or self.micros.ndim != 2 or 0 in self.micros.shape:
            shapes = self.features.shape, self.micros.shape
            allowed = "(users, features) and (users, treatments), with at least 1 user, 1 treatment"
            raise InputError("the shape of features and of micros", shapes, allowed)
        n, k = self.micros.shape
        shapes_of: dict[str, tuple[int, ...]] = {
            "features": (n, self.features.shape[1]),
            "actions": (n,),
            "outcomes": (n,),
            "effects": (n, k),
            "probabilities": (n,),
            "known_shares": (k + 1,),
        }
        for field, expected in shapes_of.items():
            array = getattr(self, field)
            if array is not None and array.shape != expected:
                raise InputError(f"the shape of {field}", array.shape, f"{expected}")

    @property
    def amounts(self) -> bool:
        """Whether the outcomes are amounts of money."""
        return self.kind == outcome.Kind.AMOUNT

    def _check_values(self) -> None:
        k = self.treatments
        object.__setattr__(self, "kind", outcome.kind_of(self.kind, "kind"))
        least_outcome, most_outcome, outcome_range = outcome.range_of(self.kind)
        most_effect = most_outcome - least_outcome
        effect_range = f"from {-most_effect:g} to {most_effect:g}"
        ranges: dict[str, tuple[float, float, str]] = {
            "features": (-MOST_FEATURE, MOST_FEATURE, FEATURE_RANGE),
            "micros": (LEAST_COST, MOST_COST, f"from {LEAST_COST} to {MOST_COST}"),
            "outcomes": (least_outcome, most_outcome, outcome_range),
            "actions": (0, k, f"from 0 to {k}"),
            "effects": (-most_effect, most_effect, effect_range),
            "known_shares": (LEAST_PROBABILITY, 1.0, PROBABILITY_RANGE),
            "probabilities": (LEAST_PROBABILITY, 1.0, PROBABILITY_RANGE),
        }
        for field, (least, most, allowed) in ranges.items():
            array = getattr(self, field)
            if array is None or not array.size or (array.min() >= least and array.max() <= most):
                continue
            place = tuple(np.argwhere(~((array >= least) & (array <= most)))[0])
            name = "probability" if field == "probabilities" else field.removesuffix("s")
            name = "the cost in micros" if field == "micros" else name
            if field == "features":
                name = f"feature {self.feature_names[place[1]]}"
            raise InputError(f"{name} of row {place[0]}", array[place].item(), allowed)
        if self.known_shares is not None and abs(self.known_shares.sum() - 1.0) > 1e-6:
            raise InputError("the sum of known_shares", float(self.known_shares.sum()), "1")

    def take(self, rows: Ints) -> Log:
        """The log of these rows; the shares stay those of the whole trial."""
        given = {field: getattr(self, field) for field in ROWS}
        try:
            taken: dict[str, Any] = {
                field: None if array is None else array[rows] for field, array in given.items()
            }
        except (IndexError, ValueError) as error:
            raise InputError("rows", rows, f"rows of the log ({error})") from None
        return replace(self, **taken, known_shares=self.shares)

    @property
    def users(self) -> int:
        """The number of rows, n."""
        return len(self.micros)

    @property
    def treatments(self) -> int:
        """The number of treatments, K, without the control."""
        return int(self.micros.shape[1])

    @property
    def costs(self) -> Floats:
        """What each treatment would cost for each user, in currency units, of shape (n, K)."""
        return self.micros / MICROS

    @property
    def shares(self) -> Floats:
        """The probability of each action 0..K in the trial: as designed, or as measured."""
        if self.known_shares is not None:
            return self.known_shares
        return np.bincount(self.actions, minlength=self.treatments + 1) / self.users


ROWS = ("features", "actions", "outcomes", "micros", "effects", "probabilities")  # per user
WHOLE = ("actions", "micros")
MOST_FEATURE = 1e100  # its square must not overflow
FEATURE_RANGE = "a finite number within 1e100"
LEAST_PROBABILITY = 1e-9  # anything smaller is a mistake or a rounding error
PROBABILITY_RANGE = "above 0 (at least 1e-9) and at most 1"
