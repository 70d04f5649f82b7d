"""Work: how long commands take, estimated before they run.

What takes longer than some milliseconds runs in a thread, so that the event loop goes on. Long
lists are done in parts, so that other requests have their turn in between. The figures are upper
ones, measured over policies from 1 x 1 to 1,000 features x 100 treatments on one core of a server.
"""

from __future__ import annotations

from bccb.machine import Machine

SECONDS_PER_USER = 25e-6  # of Python and SQLite, whatever the policy
SECONDS_PER_NUMBER = 1e-9  # of the policy's memory, which learning goes through
SECONDS_PER_TRACE = 150e-9  # for each number of a decision that is read, sealed and stored
SECONDS_PER_PENDING = 25e-9  # to count a user who waits in a report
SECONDS_PER_TREATMENT = 20e-6  # beyond the first, to compute the probability of an action

INLINE = 0.010  # seconds of work in the event loop at most
AT_ONCE = 0.1  # seconds of work that share a commit: others wait for as long
LONG = 1.0  # what is never done in the event loop


def seconds_per_user(machine: Machine) -> float:
    """What a decision on one user, or its outcome, takes at most."""
    numbers = SECONDS_PER_NUMBER * machine.model_size + SECONDS_PER_TRACE * machine.trace_size
    return SECONDS_PER_USER + numbers + SECONDS_PER_TREATMENT * (machine.treatments - 1)


def users_at_once(machine: Machine) -> int:
    """How many users of a list are decided on, or learned from, before others have their turn."""
    return max(1, int(AT_ONCE / seconds_per_user(machine)))
