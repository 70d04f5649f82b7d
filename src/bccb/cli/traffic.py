"""Traffic for a running service: users who come one after the other, and what becomes of them."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from threading import Event, Lock, Thread
from typing import ClassVar, Literal

from bccb.client import Campaign, Client, DecisionAnswer, Outcome, User
from bccb.client.values import new_id
from bccb.data.world import World
from bccb.encoding import Encoding, plain
from bccb.errors import BccbError
from bccb.evaluate.late import exponential_delays
from bccb.outcome import Kind
from bccb.types import Log

MOST_AT_ONCE = 1_000  # decisions or outcomes in one call
TICK = 0.02  # seconds between looks at the outcomes that are due
LAST_DELAYS = 5  # mean delays after the last user: what is unreported by then is reported at once


class Traffic(ABC):
    """Users and what becomes of them."""

    mode: ClassVar[Literal["live", "shadow"]]  # of the campaign: whether its answers are acted on

    def __init__(
        self, source: World | Log, encoding: Encoding, treatments: tuple[str, ...]
    ) -> None:
        self.source, self.encoding, self.treatments = source, encoding, treatments
        self.costs = source.costs  # kept: the source converts all of them at every call
        self.run = new_id()

    def user(self, row: int) -> User:
        """The user who comes as number ``row``, with an id of this run."""
        features = self.encoding.values(self.source.features[row].tolist())
        costs = zip(self.treatments, self.costs[row].tolist(), strict=True)
        return User(features, dict(costs), f"{self.run}-{row}")

    @property
    def kind(self) -> Kind:
        """What outcomes are."""
        return Kind(self.source.kind)

    @abstractmethod
    def outcome(self, row: int, answer: DecisionAnswer) -> Outcome:
        """What became of this user after the answer of the service."""

    @abstractmethod
    def caused(self, row: int, answer: DecisionAnswer) -> float:
        """What the answer caused in expectation: conversions, or value; NaN where nobody knows."""


class SimulatedTraffic(Traffic):
    """Users of a world: they are treated as the service says."""

    mode = "live"

    def __init__(
        self, world: World, features: tuple[str, ...], treatments: tuple[str, ...]
    ) -> None:
        super().__init__(world, plain(features), treatments)
        self.world = world

    def outcome(self, row: int, answer: DecisionAnswer) -> Outcome:
        """By the user's own draw, and the rate of what was done."""
        rate, amounts = self.world.rates[row, self._action(answer)], self.world.amounts
        worth = 1.0 if amounts is None else float(amounts.drawn[row])
        return Outcome(answer.decision_id, worth if self.world.draws[row] < rate else 0.0)

    def caused(self, row: int, answer: DecisionAnswer) -> float:
        """The true effect."""
        rates, amounts = self.world.rates[row], self.world.amounts
        worth = 1.0 if amounts is None else float(amounts.worth[row])
        return worth * float(rates[self._action(answer)] - rates[0])

    def _action(self, answer: DecisionAnswer) -> int:
        return 0 if answer.treatment is None else 1 + self.treatments.index(answer.treatment)


class LoggedTraffic(Traffic):
    """Users of a trial, who were treated before the service was asked."""

    mode = "shadow"

    def __init__(self, log: Log) -> None:
        super().__init__(log, log.encoding or plain(log.feature_names), log.treatment_names)
        self.log = log

    def outcome(self, row: int, answer: DecisionAnswer) -> Outcome:
        """As logged, with what the trial did."""
        action = int(self.log.actions[row])
        done = None if action == 0 else self.treatments[action - 1]
        return Outcome(answer.decision_id, float(self.log.outcomes[row]), done)

    def caused(self, row: int, answer: DecisionAnswer) -> float:
        """Not known of a trial."""
        return math.nan


@dataclass(frozen=True, slots=True)
class Plan:
    """How the traffic comes."""

    users: int
    rate: float  # users per second; 0 for as fast as possible
    concurrency: int = 16  # calls at the same time
    batch: int = 1  # users in a call
    delay: float = 0.0  # seconds until a conversion is reported, on average
    seed: int = 0  # of the delays

    @property
    def ending(self) -> float:
        """The most seconds that it goes on reporting after the last user."""
        return LAST_DELAYS * self.delay


@dataclass(slots=True)
class Totals:
    """What came of the traffic."""

    decided: int = 0
    caused: float = 0.0  # in expectation; NaN where nobody knows
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)  # seconds of each call for decisions
    interrupted: bool = False
    problem: BccbError | None = None  # that ended it


class Drive:
    """Traffic on its way to a campaign: some threads ask for decisions, one reports outcomes.

    With a delay each outcome is reported after an exponential one, and of users who are treated as
    the service says conversions alone, as a shop would. Of a trial's users zeros, too: from no
    report a shadow campaign cannot learn what was done to them.

    Threads, because with calls from many coroutines httpx spends most of its time on its pool of
    connections.
    """

    def __init__(
        self,
        client: Client,
        campaign: Campaign,
        traffic: Traffic,
        plan: Plan,
        on_decided: Callable[[int], None] = lambda decided: None,
    ) -> None:
        self.client, self.campaign, self.traffic = client, campaign, traffic
        self.plan, self.on_decided, self.totals = plan, on_decided, Totals()
        self.starts, self.lock = iter(range(0, plan.users, plan.batch)), Lock()
        self.owed: list[tuple[float, int, Outcome]] = []  # a heap: when it is due, row, outcome
        self.delays = exponential_delays(plan.users, plan.delay, plan.seed)
        self.ended = math.inf  # when the last user had come
        self.stopping, self.decided_all = Event(), Event()

    def run(self) -> Totals:
        """Until all users came, the service refuses or Ctrl-C is pressed.

        What was decided by then still gets its outcomes, at once if it was stopped, and otherwise
        for a limited time as they are due.
        """
        self.began = time.monotonic()
        deciders = [self._start(self._decide) for _ in range(self.plan.concurrency)]
        reporter = self._start(self._report)
        self._wait_for(*deciders)
        self.ended = time.monotonic()
        self.totals.seconds = self.ended - self.began
        self.decided_all.set()
        self._wait_for(reporter)
        return self.totals

    def _start(self, work: Callable[[], None]) -> Thread:
        def until_refused() -> None:
            try:
                work()
            except BccbError as problem:
                self.totals.problem = self.totals.problem or problem
                self.stopping.set()

        thread = Thread(target=until_refused, daemon=True)  # ends with Ctrl-C for the second time
        thread.start()
        return thread

    def _wait_for(self, *threads: Thread) -> None:
        while any(thread.is_alive() for thread in threads):
            try:
                for thread in threads:
                    thread.join(TICK)  # not for ever: Ctrl-C must get through on every system
            except KeyboardInterrupt:
                if self.totals.interrupted:
                    raise
                self.totals.interrupted = True
                self.stopping.set()

    def _decide(self) -> None:
        while True:
            with self.lock:
                start = next(self.starts, None)
            if start is None or self._pause_until(start):
                return
            rows = range(start, min(start + self.plan.batch, self.plan.users))
            users = [self.traffic.user(row) for row in rows]
            began = time.perf_counter()
            answers = self.client.decide_many(self.campaign, users)
            self._record(rows, answers, time.perf_counter() - began)

    def _pause_until(self, start: int) -> bool:
        """Until it is time for the user who comes as number ``start``; whether to stop instead."""
        due = self.began + start / self.plan.rate if self.plan.rate else 0.0
        return self.stopping.wait(max(0.0, due - time.monotonic()))

    def _record(self, rows: range, answers: tuple[DecisionAnswer, ...], seconds: float) -> None:
        with self.lock:
            now = time.monotonic()
            for row, answer in zip(rows, answers, strict=True):
                outcome = self.traffic.outcome(row, answer)
                if outcome.value or not self.plan.delay or self.traffic.mode == "shadow":
                    heappush(self.owed, (now + float(self.delays[row]), row, outcome))
                self.totals.caused += self.traffic.caused(row, answer)
            self.totals.latencies.append(seconds)
            self.totals.decided += len(rows)
            self.on_decided(self.totals.decided)

    def _report(self) -> None:
        while self.owed or not self.decided_all.is_set():
            due = self._due()
            if due:
                self.client.report_outcomes(self.campaign, due)
            else:
                self.decided_all.wait(TICK)

    def _due(self) -> list[Outcome]:
        """The outcomes that are known by now; all of them when it is to end."""
        now, due = time.monotonic(), list[Outcome]()
        at_once = self.stopping.is_set() or now > self.ended + self.plan.ending
        with self.lock:
            while self.owed and len(due) < MOST_AT_ONCE and (at_once or self.owed[0][0] <= now):
                due.append(heappop(self.owed)[2])
        return due
