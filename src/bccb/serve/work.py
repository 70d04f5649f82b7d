"""Work: how long commands take, estimated before they run.

What takes longer than some milliseconds runs in a thread, so that the event loop goes on; what
would keep the books to itself for longer than half a second is refused. The figures are upper ones,
measured over policies from 1 x 1 to 1,000 features x 100 treatments on one core of a server.
"""

from __future__ import annotations

from bccb.machine import Machine
from bccb.serve.schemas import MOST_BATCH

SECONDS_A_USER = 25e-6  # of Python and SQLite, whatever the policy
SECONDS_A_NUMBER = 1e-9  # of the policy's memory, which learning goes through
SECONDS_A_TRACE = 150e-9  # for each number of a decision that is read, sealed and stored
SECONDS_A_TREATMENT = 20e-6  # beyond the first, to compute the probability of an action

INLINE = 0.010  # seconds of work in the event loop at most
AT_ONCE = 0.1  # seconds of work that share a commit: others wait for as long
MOST = 0.5  # seconds of work of one request
LONG = 1.0  # what is never done in the event loop


def seconds_a_user(machine: Machine) -> float:
    """What a decision on one user, or its outcome, takes at most."""
    numbers = SECONDS_A_NUMBER * machine.memory.size + SECONDS_A_TRACE * machine.trace_size
    return SECONDS_A_USER + numbers + SECONDS_A_TREATMENT * (machine.treatments - 1)


def most_per_list(machine: Machine) -> int:
    """How many users one list may have."""
    return max(1, min(MOST_BATCH, int(MOST / seconds_a_user(machine))))
