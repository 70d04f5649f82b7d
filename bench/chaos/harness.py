"""One run: a cluster is broken under load, healed, asked again and checked."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.progress import Progress, TaskID

from bench.chaos import checker
from bench.chaos.cluster import Cluster
from bench.chaos.faults import Injector
from bench.chaos.load import Load
from bench.service.memory import Faults
from bench.service.process import ServerError, run_bccb

VERIFY_SECONDS = 600.0


class Harness:
    """One cluster, its clients, what is done to it, and the verdict."""

    def __init__(self, folder: Path, seed: int, clients: int, program: Sequence[str]) -> None:
        self.cluster = Cluster(folder, program, seed)
        self.load = Load(self.cluster, clients, seed)
        self.injector = Injector(self.cluster, seed)
        self.answers = folder / "answers.jsonl"
        self.again = Faults()  # where a replica answers differently from before
        self.broken: list[str] = []  # what kept the harness from its end
        self.verdict: checker.Verdict | None = None
        self.figures: dict[str, float] = {}

    async def run(self, seconds: float, progress: Progress) -> None:
        """Break for so long, heal, and check."""
        bar = progress.add_task("starting", total=seconds)
        try:
            await self.cluster.start()
            self.load.open()
            self.load.begin()
            showing = asyncio.create_task(self._show(progress, bar))
            supervising = asyncio.create_task(self.cluster.supervise())
            try:
                await self.injector.run(seconds)
            finally:
                supervising.cancel()
                showing.cancel()
            progress.update(bar, description="healing")
            await self.cluster.heal()
            await self.load.end()
            progress.update(bar, description="asking again")
            await self.load.ask_again(self.again)
            self.figures = self.cluster.figures()
            await self.cluster.stop()
        except ServerError as error:
            self.broken.append(str(error))
        if self.load.operator is not None:
            progress.update(bar, description="checking")
            await asyncio.to_thread(self._check)

    async def _show(self, progress: Progress, bar: TaskID) -> None:
        began = time.monotonic()
        while True:
            faults, answers = self.injector.counts.total(), self.load.traffic.answers
            about = f"{faults} faults, {answers:,} answers"
            progress.update(bar, completed=time.monotonic() - began, description=about)
            await asyncio.sleep(0.5)

    def _check(self) -> None:
        """The database alone, and what clients remember."""
        with self.answers.open("w") as lines:
            for line in self.load.answers():
                lines.write(json.dumps(line) + "\n")
        self.verdict = checker.check(self.cluster.database.url(), checker.lines_of(self.answers))
        done = run_bccb(
            *("ledger", "verify", self.cluster.database.url()),
            program=self.cluster.program,
            timeout=VERIFY_SECONDS,
        )
        if done.returncode != 0:
            self.broken.append((done.stdout + done.stderr).strip())

    def counts(self) -> Counter[str]:
        """What was found in the database, in the answers and when all was asked again."""
        found = Counter(diverged=len(self.broken) + self.again.counts.total())
        for name, count in self.load.faults.counts.items():
            found["diverged" if name == "state_mismatch" else name] += count
        if self.verdict is not None:
            found += self.verdict.findings.counts
        return found
