"""Attack the service at random: campaigns, calls, malformed calls, kills and failed commits.

Each round has a ledger and a `bccb serve` of its own, on loopback. Every answer must be strict
JSON with finite numbers and come within a second; a plain model of the ledger must agree with it;
whatever was answered must still be so after every restart. Each finding is a line that says how to
repeat it. The last line counts them; the exit status is 1 unless all those counts are 0.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress

from bench.fuzzing.findings import Findings, StopFuzzError
from bench.fuzzing.round import ROUND, Round, Size
from bench.fuzzing.warm import warm

EXAMPLES = """\
examples:
  python -m bench.fuzz                                2,000 campaigns, 300,000 decisions
  python -m bench.fuzz --campaigns 40 --decisions 4000 --seed 7
  python -m bench.fuzz --seconds 60                   at most about a minute
  python -m bench.fuzz --seed 1 --round 7 --stop-at-first   repeat what was found in round 7
"""
KEPT = 3  # ledgers of rounds with findings


class Done(NamedTuple):
    """What rounds have done."""

    campaigns: int = 0
    decisions: int = 0
    restarts: int = 0

    def __add__(self, other: Any) -> Done:
        """Together."""
        return Done(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class Fuzz:
    """Rounds until enough was done, some of them at once."""

    def __init__(self, options: argparse.Namespace, folder: Path, findings: Findings) -> None:
        self.options, self.folder, self.findings = options, folder, findings
        self.running: list[Round] = []
        self.finished = Done()
        self.kept: list[Path] = []
        self.began = time.monotonic()
        self.ends = False
        self.update: Callable[[], None] = lambda: None

    @property
    def done(self) -> Done:
        """So far."""
        return sum(map(_done, list(self.running)), self.finished)

    def line(self) -> str:
        """What was done and found so far."""
        return self.findings.verdict(*self.done)

    def run(self) -> None:
        """All rounds."""
        warm(self.folder / "warm")
        self.began = time.monotonic()
        only, number = self.options.round, 0
        with ThreadPoolExecutor(self.options.jobs) as threads:
            if only is not None:
                self._run_rounds(threads, range(only, only + 1))
                return
            while self._goes_on():
                # as many as are missing, then as many as it takes for those that ended early
                many = self._rounds_missing()
                self._run_rounds(threads, range(number, number + many))
                number += many

    def _run_rounds(self, threads: ThreadPoolExecutor, numbers: range) -> None:
        try:
            list(threads.map(self._run_round, numbers))
        except KeyboardInterrupt:
            self.ends = True  # what runs is still checked and reported

    def _goes_on(self) -> bool:
        return self._rounds_missing() > 0 and not self._stops()

    def _rounds_missing(self) -> int:
        campaigns: int = self.options.campaigns - self.done.campaigns
        decisions: int = self.options.decisions - self.done.decisions
        size = self._size()
        return max(-(-campaigns // size.campaigns), -(-decisions // size.decisions), 0)

    def _stops(self) -> bool:
        seconds: float | None = self.options.seconds
        late = seconds is not None and time.monotonic() - self.began > seconds
        return self.ends or late or (self.options.stop_at_first and bool(self.findings))

    def _size(self) -> Size:
        """Of a round: a run that is shorter than some rounds is shared by those at once."""
        jobs = self.options.jobs
        campaigns = min(ROUND.campaigns, -(-self.options.campaigns // jobs))
        return Size(campaigns, min(ROUND.decisions, -(-self.options.decisions // jobs)))

    def _run_round(self, number: int) -> None:
        if self._stops():
            return
        found = self.findings.of_round()
        one = Round(self.folder / str(number), self.options.seed, number, found)
        self.running.append(one)

        def go_on() -> bool:
            self.update()
            return not self._stops()

        try:
            one.run(ROUND if self.options.round is not None else self._size(), go_on)
        except StopFuzzError:
            pass
        finally:
            self.running.remove(one)
            self.finished += _done(one)
            if found and len(self.kept) < KEPT:
                self.kept.append(self.folder / str(number))
            else:
                shutil.rmtree(self.folder / str(number))


def _done(one: Round) -> Done:
    session = one.session
    return Done(len(session.names), session.decisions, max(session.starts - 1, 0))


def options_from(arguments: list[str] | None) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.fuzz",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--seed", type=int, default=1, help="of everything that is drawn (default: 1)")
    add("--campaigns", type=int, default=2_000, help="at least so many (default: 2000)")
    add("--decisions", type=int, default=300_000, help="at least so many (default: 300000)")
    add("--seconds", type=float, help="begin nothing new so long after all is compiled")
    add("--jobs", type=int, default=2, help="rounds at once (default: 2)")
    add("--round", type=int, help="this round alone, to repeat a finding")
    add("--stop-at-first", action="store_true", help="end at the first finding")
    add("--folder", type=Path, help="where ledgers are written for the while")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Read the options, attack, report."""
    options = options_from(arguments)
    notes = Console(stderr=True, highlight=False, soft_wrap=True)
    folder = Path(tempfile.mkdtemp(prefix="bccb-fuzz-", dir=options.folder))
    findings = Findings(partial(print, flush=True), options.stop_at_first)
    fuzz = Fuzz(options, folder, findings)
    with Progress(console=notes, transient=True) as progress:
        bar = progress.add_task("compiling", total=options.campaigns)
        fuzz.update = lambda: progress.update(
            bar, completed=fuzz.done.campaigns, description=fuzz.line()
        )
        fuzz.run()
    notes.print(f"{time.monotonic() - fuzz.began:.0f} s")
    if fuzz.kept:
        notes.print(f"ledgers with findings are in {', '.join(map(str, fuzz.kept))}")
    else:
        shutil.rmtree(folder)
    print(fuzz.line())
    sys.exit(int(bool(findings)))


if __name__ == "__main__":
    main()
