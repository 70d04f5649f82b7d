"""Traffic for a running service: users who come one after the other, and what becomes of them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Protocol

from bccb.client import AsyncClient, Campaign, DecisionAnswer, Outcome, User
from bccb.client.calls import new_id
from bccb.data.world import World
from bccb.errors import BccbError
from bccb.types import Log

MOST_AT_ONCE = 1_000  # decisions or outcomes in one call
TICK = 0.02  # seconds between looks at the outcomes that are due


class Traffic(Protocol):
    """Users and what becomes of them."""

    @property
    def features(self) -> tuple[str, ...]:
        """Their names."""

    @property
    def treatments(self) -> tuple[str, ...]:
        """Their names."""

    @property
    def mode(self) -> Literal["live", "shadow"]:
        """Of the campaign: whether its answers are acted on."""

    def user(self, row: int) -> User:
        """The user who comes as number ``row``."""

    def outcome(self, row: int, answer: DecisionAnswer) -> Outcome:
        """What became of this user after the answer of the service."""

    def caused(self, row: int, answer: DecisionAnswer) -> float | None:
        """The conversions that the answer caused in expectation; None where nobody knows."""


@dataclass(slots=True)
class SimulatedTraffic:
    """Users of a world: they do as they are treated."""

    world: World
    features: tuple[str, ...]
    treatments: tuple[str, ...]
    run: str = field(default_factory=new_id)

    @property
    def mode(self) -> Literal["live", "shadow"]:
        """They are treated as the service says."""
        return "live"

    def user(self, row: int) -> User:
        """With an id of this run."""
        features = zip(self.features, self.world.features[row].tolist(), strict=True)
        costs = zip(self.treatments, self.world.costs[row].tolist(), strict=True)
        return User(dict(features), dict(costs), f"{self.run}-{row}")

    def outcome(self, row: int, answer: DecisionAnswer) -> Outcome:
        """By the user's own draw, and the rate of what was done."""
        rate = self.world.rates[row, self._action(answer)]
        return Outcome(answer.decision_id, float(self.world.draws[row] < rate))

    def caused(self, row: int, answer: DecisionAnswer) -> float | None:
        """The true effect."""
        rates = self.world.rates[row]
        return float(rates[self._action(answer)] - rates[0])

    def _action(self, answer: DecisionAnswer) -> int:
        return 0 if answer.treatment is None else 1 + self.treatments.index(answer.treatment)


@dataclass(slots=True)
class LoggedTraffic:
    """Users of a trial: what was done to them stands in its log, whatever the service says."""

    log: Log
    run: str = field(default_factory=new_id)

    @property
    def features(self) -> tuple[str, ...]:
        """Of the log."""
        return self.log.feature_names

    @property
    def treatments(self) -> tuple[str, ...]:
        """Of the log."""
        return self.log.treatment_names

    @property
    def mode(self) -> Literal["live", "shadow"]:
        """They were treated before the service was asked."""
        return "shadow"

    def user(self, row: int) -> User:
        """With an id of this run."""
        features = zip(self.log.feature_names, self.log.features[row].tolist(), strict=True)
        costs = zip(self.log.treatment_names, self.log.costs[row].tolist(), strict=True)
        return User(dict(features), dict(costs), f"{self.run}-{row}")

    def outcome(self, row: int, answer: DecisionAnswer) -> Outcome:
        """As logged, with what the trial did."""
        action = int(self.log.actions[row])
        done = None if action == 0 else self.log.treatment_names[action - 1]
        return Outcome(answer.decision_id, float(self.log.outcomes[row]), done)

    def caused(self, row: int, answer: DecisionAnswer) -> float | None:
        """Not known of a trial."""
        return None


@dataclass(frozen=True, slots=True)
class Plan:
    """How the traffic comes."""

    users: int
    rate: float  # users a second; 0 for as fast as it goes
    concurrency: int = 16  # calls at the same time
    batch: int = 1  # users in a call
    delay: float = 0.0  # seconds until an outcome is known


@dataclass(slots=True)
class Tally:
    """What came of the traffic."""

    decided: int = 0
    caused: float | None = 0.0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)  # seconds of each call for decisions
    interrupted: bool = False
    problem: BccbError | None = None  # that ended it


class Drive:
    """Traffic on its way to a campaign, in coroutines: some decide, one reports outcomes."""

    def __init__(
        self,
        client: AsyncClient,
        campaign: Campaign,
        traffic: Traffic,
        plan: Plan,
        told: Callable[[int], None] = lambda decided: None,
    ) -> None:
        self.client, self.campaign, self.traffic = client, campaign, traffic
        self.plan, self.told, self.tally = plan, told, Tally()
        self.starts = iter(range(0, plan.users, plan.batch))
        self.owed: deque[tuple[float, Outcome]] = deque()  # in the order in which they are due
        self.stopping, self.decided_all = asyncio.Event(), False

    async def run(self) -> Tally:
        """Until all users came, the service refuses or Ctrl-C is pressed.

        What was decided by then still gets its outcomes, at once if it was stopped.
        """
        self.began = time.monotonic()
        deciders = [asyncio.create_task(self._decide()) for _ in range(self.plan.concurrency)]
        reporter = asyncio.create_task(self._report())
        await self._finished(deciders)
        self.tally.seconds, self.decided_all = time.monotonic() - self.began, True
        await self._finished([reporter])
        return self.tally

    async def _finished(self, tasks: list[asyncio.Task[None]]) -> None:
        try:
            await asyncio.wait(tasks)  # which leaves them running when it is cancelled itself
        except asyncio.CancelledError:
            if self.tally.interrupted:  # Ctrl-C for the second time
                raise
            self.tally.interrupted = True
            self.stopping.set()
            await asyncio.wait(tasks)
        for task in tasks:
            task.result()

    async def _decide(self) -> None:
        for start in self.starts:
            await self._pause_until(start)
            if self.stopping.is_set():
                return
            rows = range(start, min(start + self.plan.batch, self.plan.users))
            began = time.perf_counter()
            try:
                answers = await self.client.decide_many(
                    self.campaign, [self.traffic.user(row) for row in rows]
                )
            except BccbError as problem:
                self._stop(problem)
                return
            self.tally.latencies.append(time.perf_counter() - began)
            self._take(rows, answers)

    async def _pause_until(self, start: int) -> None:
        """Until it is time for the user who comes as number ``start``, or for the end."""
        if not self.plan.rate:
            return
        pause = self.began + start / self.plan.rate - time.monotonic()
        if pause > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), pause)

    def _take(self, rows: range, answers: tuple[DecisionAnswer, ...]) -> None:
        due = time.monotonic() + self.plan.delay
        for row, answer in zip(rows, answers, strict=True):
            self.owed.append((due, self.traffic.outcome(row, answer)))
            caused = self.traffic.caused(row, answer)
            total = self.tally.caused
            self.tally.caused = None if caused is None or total is None else total + caused
        self.tally.decided += len(rows)
        self.told(self.tally.decided)

    async def _report(self) -> None:
        while self.owed or not self.decided_all:
            due = self._due()
            if not due:
                await asyncio.sleep(TICK)
                continue
            try:
                await self.client.report_outcomes(self.campaign, due)
            except BccbError as problem:
                self._stop(problem)
                return

    def _due(self) -> list[Outcome]:
        """The outcomes that are known by now; all of them when it is to end."""
        now, due = time.monotonic(), list[Outcome]()
        while self.owed and len(due) < MOST_AT_ONCE:
            if self.owed[0][0] > now and not self.stopping.is_set():
                break
            due.append(self.owed.popleft()[1])
        return due

    def _stop(self, problem: BccbError) -> None:
        self.tally.problem = self.tally.problem or problem
        self.stopping.set()
