"""Assembly: a new policy from a spec."""

from __future__ import annotations

import secrets

import numpy as np

from bccb import checks
from bccb.charge import AT_ONCE, TREATMENT, Payment, charge_code
from bccb.errors import InputError
from bccb.kernels import counts as count
from bccb.kernels.component import FIRST_FIT
from bccb.kernels.counts import MOST_FEATURES, MOST_MEMORY, MOST_TREATMENTS, MOST_USERS
from bccb.kernels.store import view_store
from bccb.money import budget_in_micros, cap_in_micros
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
) -> Policy:
    """A new policy from any spec, in the table of policies or not."""
    name, composition = spec.name, spec.composition
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
        counts[count.CAP] = cap_in_micros(checks.number("cost_cap", cost_cap))
    counts[count.CHARGE] = charge_code(charge)
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


def assemble_for(
    spec: Spec,
    log: Log,
    *,
    budget: float,
    horizon: int,
    seed: int = 0,
    payment: Payment = AT_ONCE,
) -> Policy:
    """A new policy for users like those of a log: with its features and treatments."""
    size = {"features": log.features.shape[1], "treatments": log.treatments}
    return assemble(spec, budget=budget, horizon=horizon, seed=seed, **size, **payment._asdict())
