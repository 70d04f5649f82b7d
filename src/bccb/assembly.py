"""Assembly: a new policy from a spec."""

from __future__ import annotations

import secrets
from dataclasses import replace

import numpy as np

from bccb import checks
from bccb.charge import AT_ONCE, TREATMENT, Payment, charge_code, share_in_millionths
from bccb.composition import Composition
from bccb.errors import InputError
from bccb.kernels import counts as count
from bccb.kernels.component import FIRST_FIT
from bccb.kernels.counts import MOST_FEATURES, MOST_MEMORY, MOST_TREATMENTS, MOST_USERS
from bccb.kernels.store import view_store
from bccb.money import budget_in_micros, cap_in_micros
from bccb.outcome import Kind, check_largest, kind_of
from bccb.pending import Pending
from bccb.policy import Policy
from bccb.spec import Spec
from bccb.types import Log


def assemble(
    spec: Spec,
    *,
    budget: float,
    horizon: int,
    features: int,
    treatments: int = 1,
    seed: int = 0,
    window: float | None = None,
    cost_cap: float | None = None,
    charge: str = TREATMENT,
    share: float | None = None,
    outcome: str = Kind.CONVERSION,
    largest: float | None = None,
) -> Policy:
    """A new policy from any spec, in the table of policies or not."""
    name, composition = spec.name, composition_for(spec, outcome)
    d = checks.whole("features", features, 0, MOST_FEATURES)
    K = checks.whole("treatments", treatments, 1, MOST_TREATMENTS)
    if spec.needs_effects and d < K:
        raise InputError("features", d, f"at least {K}: they are the true effects")
    counts = np.zeros(count.COUNTS, np.int64)
    counts[count.FEATURES], counts[count.TREATMENTS] = d, K
    counts[count.SEED] = checks.whole("seed", seed, 0, 2**63 - 1)
    counts[count.HORIZON] = checks.whole("horizon", horizon, 1, MOST_USERS)
    counts[count.BUDGET] = budget_in_micros(checks.number("budget", budget))
    counts[count.REMAINING] = counts[count.PLANNED] = counts[count.BUDGET]
    if cost_cap is not None:
        if composition.no_cap:
            raise InputError("cost_cap", cost_cap, composition.no_cap)
        counts[count.CAP] = cap_in_micros(checks.number("cost_cap", cost_cap))
    counts[count.CHARGE] = charge_code(charge)
    counts[count.SHARE] = share_in_millionths(share, charge)
    if largest is not None:
        most = checks.number("largest", largest)
        check_largest(most)
        counts[count.LARGEST] = budget_in_micros(most, "largest")
    for field, given in (("share", share), ("largest", largest)):
        if given is not None and not composition.amounts:
            raise InputError(field, given, 'left out: it is about amounts, with outcome="amount"')
    if spec.needs_history:
        counts[count.HISTORY] = count.NOT_LEARNED
    counts[count.AT_ESTIMATOR :] = offsets = composition.offsets(d, K)
    size = composition.memory_size(d, K)
    if size > MOST_MEMORY:
        allowed = f"so few that {name} needs at most {MOST_MEMORY:,} numbers, not {size:,}"
        raise InputError("features x treatments", f"{d:,} x {K:,}", allowed)
    memory = np.zeros(size)
    known = [key for part in composition.components for key in part.parameters]
    for part, at in zip(composition.components, offsets, strict=False):
        part.begin(memory[at : at + part.layout.size(d, K)], d, K, spec.parameters)
    if composition.refitted:
        estimator = composition.components[0]
        place = offsets[0] + list(estimator.parameters).index(FIRST_FIT)
        view_store(memory, d, K).first[0] = memory[place]
    for key in spec.parameters:
        if key not in known:
            allowed = f"one of {', '.join(known)}" if known else "absent: it has no parameters"
            raise InputError(f"a parameter of {name}", key, allowed)
    pending = None if window is None else Pending(window, d, K)
    return Policy(name, composition, counts, memory, secrets.token_hex(8), {}, pending)


def composition_for(spec: Spec, outcome: str) -> Composition:
    """What a policy is made of for outcomes of this kind; refused where it cannot learn them."""
    if kind_of(outcome) is Kind.CONVERSION:
        return spec.composition
    if not spec.composition.takes_amounts:
        raise InputError(
            "outcome", "amount", f"conversions: {spec.name} learns rates only; use pooled-trees"
        )
    return replace(spec.composition, amounts=True)


def assemble_for(
    spec: Spec,
    log: Log,
    *,
    budget: float,
    horizon: int,
    seed: int = 0,
    payment: Payment = AT_ONCE,
) -> Policy:
    """A new policy for users like those of a log: with its features and treatments.

    One payment is for all policies that are compared; those that no cost cap applies to have none.
    """
    if spec.composition.no_cap:
        payment = payment._replace(cost_cap=None)
    return assemble(
        spec,
        budget=budget,
        horizon=horizon,
        features=log.features.shape[1],
        treatments=log.treatments,
        seed=seed,
        outcome=log.kind,
        **payment._asdict(),
    )
