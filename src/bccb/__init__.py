"""bccb: budget-constrained causal bandits.

Decide whom to treat, one user at a time, under a budget that is never exceeded, and learn from each
outcome.

>>> import bccb
>>> policy = bccb.make("bccb", budget=5_000, horizon=100_000, features=12, seed=42)
>>> decision = policy.decide([0.0] * 12, cost=0.77)
>>> policy.observe(decision, outcome=1)
"""

from bccb.decision import Decision
from bccb.errors import BccbError, FitError, InputError, MissingExtraError, StateError
from bccb.policies import POLICIES, make
from bccb.policy import Policy, load
from bccb.types import Log

__version__ = "0.2.0"

__all__ = [
    "POLICIES",
    "BccbError",
    "Decision",
    "FitError",
    "InputError",
    "Log",
    "MissingExtraError",
    "Policy",
    "StateError",
    "load",
    "make",
]
