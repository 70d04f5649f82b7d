"""Naive rivals: whether learning who responds beats ignoring it, as most campaigns do.

``cheapest-first`` looks at the cost alone, ``response-first`` ranks by the predicted response per
cost; neither learns how effects differ between users. A policy that does must cause more than the
better of them, or its worth lies elsewhere: in the model of responses, or in the pacing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from bccb.evaluate.choice import Choice, Evidence
from bccb.evaluate.statistics import Limits
from bccb.policies import NAIVE, spec_of

Verdict: TypeAlias = Literal["effects matter", "effects do not matter", "cannot tell"]
MARGIN = 0.1  # of what the naive rival causes: a gain that is known to be smaller does not matter
BLIND = ("none", "constant")  # estimators that do not look at users


@dataclass(frozen=True, slots=True)
class Worth:
    """What learning effects is worth: a policy that does beside the better naive rival."""

    policy: str
    rival: str
    gain: float  # incremental conversions of the policy, less those of the rival
    interval: Limits  # of that difference
    verdict: Verdict


def learns_effects(name: str) -> bool:
    """Whether a policy learns how effects differ between users.

    >>> [name for name in ("pooled-trees", "response-first", "thompson") if learns_effects(name)]
    ['pooled-trees']
    """
    return name not in NAIVE and spec_of(name).composition.estimator not in BLIND


def worth_of_effects(choice: Choice, chosen_by: Evidence, evidence: Evidence) -> Worth | None:
    """Set the recommended policy, or the best that learns effects, against the better naive rival.

    Both are picked by ``chosen_by`` and compared by ``evidence``, which may be the same. None where
    there is no such pair. Too few seeds cannot tell, whatever their interval.

    >>> import numpy as np
    >>> from bccb.evaluate.choice import choose
    >>> runs = {"pooled-trees": [9.0, 8, 9, 9, 8], "cheapest-first": [5.0, 4, 5, 4, 5]}
    >>> evidence = Evidence({name: np.array(each) for name, each in runs.items()})
    >>> worth_of_effects(choose(evidence), evidence, evidence).verdict
    'effects matter'
    """
    ranked = sorted(chosen_by.values, key=lambda name: -float(chosen_by.values[name].mean()))
    learners = [name for name in ranked if learns_effects(name)]
    rivals = [name for name in ranked if name in NAIVE]
    if not learners or not rivals:
        return None
    policy = choice.recommended if choice.recommended in learners else learners[0]
    rival, values = rivals[0], evidence.values
    gain, caused = float((values[policy] - values[rival]).mean()), float(values[rival].mean())
    interval = evidence.interval(policy, rival)
    verdict: Verdict = "cannot tell"
    if not evidence.is_enough:
        pass
    elif interval.low > 0:
        verdict = "effects matter"
    elif interval.high < MARGIN * max(caused, 0.0):
        verdict = "effects do not matter"
    return Worth(policy, rival, gain, interval, verdict)


def clearly_ahead(evidence: Evidence, name: str) -> tuple[str, ...]:
    """The naive rivals that clearly cause more than a policy.

    Every policy is set against every naive rival, so the intervals allow for as many comparisons.
    Too few seeds show none.

    >>> import numpy as np
    >>> runs = {"thompson": [1.0, 2, 1, 2, 1], "cheapest-first": [5.0, 4, 5, 4, 5]}
    >>> evidence = Evidence({name: np.array(each) for name, each in runs.items()})
    >>> clearly_ahead(evidence, "thompson")
    ('cheapest-first',)
    """
    if not evidence.is_enough:
        return ()
    naive = [rival for rival in NAIVE if rival in evidence.values]
    pairs = max(len(naive) * (len(evidence.values) - 1), 1)
    judged = replace(evidence, comparisons=max(evidence.comparisons, pairs))
    return tuple(rival for rival in naive if rival != name and judged.interval(rival, name).low > 0)
