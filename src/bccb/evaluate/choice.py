"""Choice: which of several policies to use, from what each caused in the same runs.

The policy with the highest mean seems better than it is, because luck helped to choose it. Where
every seed is a world of its own, some seeds choose and others estimate. Where all seeds cut the
rows of one trial anew, that would cure nothing, and intervals allow for the number of comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from bccb.evaluate.statistics import LEVEL, Limits, load_stats
from bccb.policies import DEFAULT, spec_of
from bccb.types import Floats

FEWEST_TO_TELL = 5  # seeds: with fewer, nothing is said to be clear


@dataclass(frozen=True, slots=True)
class Evidence:
    """What each policy caused, one value for each seed, in the same order of seeds.

    Where the seeds share the rows of one trial, more seeds say nothing more about the users that it
    was drawn from. With w_i what row i adds to the mean over S seeds of a difference d,

        variance = var(d) / S + sum_i (w_i - mean w)^2,

    the first for the chance in a run, the second for the chance in who was in the trial. Only the
    first is estimated from the seeds, so for one policy the degrees of freedom are Satterthwaite's,

        (S - 1) (variance / (var(d) / S))^2.

    A difference keeps S - 1, which is wider: the pair was picked by the same runs.
    """

    values: Mapping[str, Floats]
    gains: Mapping[str, Floats] | None = None  # of each row, summed over seeds, if they share them
    comparisons: int = 1  # made at once: Bonferroni's correction

    @property
    def is_enough(self) -> bool:
        """Whether there are seeds enough to call a difference clear.

        With fewer, Student's interval rests on next to no freedom, and holds only as far as runs
        are normal, which so few cannot show.
        """
        return all(len(each) >= FEWEST_TO_TELL for each in self.values.values())

    def interval(self, one: str, other: str | None = None) -> Limits:
        """Of the mean difference of two policies, or of the mean of one.

        Student's, because percentiles of a bootstrap are too narrow for ten seeds.

        >>> import numpy as np
        >>> ones, others = np.array([5.0, 7, 9, 8]), np.array([3.0, 4, 5, 5])
        >>> evidence = Evidence({"bccb": ones, "thompson": others})
        >>> [round(end, 2) for end in evidence.interval("bccb", "thompson")]
        [1.7, 4.3]
        """
        difference = self.values[one] - (0.0 if other is None else self.values[other])
        seeds, shared = len(difference), self._shared(one, other, len(difference))
        of_runs = float(difference.var(ddof=1)) / seeds if seeds > 1 else 0.0
        variance = of_runs + shared
        freedom = float(seeds - 1)
        if other is None:
            freedom = freedom * (variance / of_runs) ** 2 if of_runs else math.inf
        quantile = float(load_stats().t.ppf(1 - LEVEL / 2 / self.comparisons, freedom))
        mean, reach = float(difference.mean()), quantile * variance**0.5
        return Limits(mean - reach, mean + reach)

    def _shared(self, one: str, other: str | None, seeds: int) -> float:
        """The variance that all seeds share."""
        if self.gains is None:
            return 0.0
        gains = self.gains[one] - (0.0 if other is None else self.gains[other])
        return float(gains.var() * len(gains)) / seeds**2


@dataclass(frozen=True, slots=True)
class Choice:
    """The recommended policy, and how it stands among the others."""

    recommended: str | None  # none where even the leading one is not expected to cause anything
    leading: str  # the one that the others are set against
    runner_up: str  # the best of the others
    best: str  # by the mean alone
    tied: tuple[str, ...]  # with the best, which is the first of them


def choose(evidence: Evidence) -> Choice:
    """Recommend one of the policies, or none.

    Of those that cannot be distinguished from the best, the default of the library comes first,
    after history where there is some, then one without history, then the one with the higher mean.
    A policy that is expected to cause nothing, or to do harm, is never recommended.

    >>> import numpy as np
    >>> values = {"hybrid": [9.0, 4.0], "pooled-trees": [6.0, 6.0], "bccb": [1.0, -4.0]}
    >>> choice = choose(Evidence({name: np.array(each) for name, each in values.items()}))
    >>> choice.recommended, choice.best, choice.tied
    ('hybrid', 'hybrid', ('hybrid', 'pooled-trees'))
    """
    means = {name: float(each.mean()) for name, each in evidence.values.items()}
    ranked = sorted(means, key=lambda name: means[name], reverse=True)
    best = ranked[0]
    tied = [name for name in ranked if name == best or evidence.interval(best, name).low <= 0]

    def merit(name: str) -> tuple[bool, bool, float]:
        spec = spec_of(name)
        ours = spec.is_like(spec_of(DEFAULT))
        return ours, spec.needs_history == ours, means[name]

    useful = [name for name in tied if means[name] > 0]
    recommended = max(useful, key=merit) if useful else None
    leading = recommended or best
    runner_up = next(name for name in ranked if name != leading)
    return Choice(recommended, leading, runner_up, best, tuple(tied))
