"""Kill the service again and again under load, and check that nothing acknowledged was lost.

Sixteen clients decide, report, correct, cancel, settle and add money; in one campaign they report
little but conversions, late, and some of them after the window; in four others costs are charged on
conversion, in two of them as a share of amounts of money; in another the policy is fitted again, in
a process of its own. At random moments the server gets SIGKILL and is started again on the same
ledger. What was acknowledged must come back to the byte, what was not is sent again, and no
campaign may ever have spent more than its budget. The last line is the verdict; the exit status is
1 unless all its counts but the kills are 0.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from bench.service import checks
from bench.service.books import Reader
from bench.service.clients import Client
from bench.service.memory import LATE, Book, Decision, Faults
from bench.service.process import PROGRAM, Server, ServerError, run_bccb

EXAMPLES = """\
examples:
  python -m bench.crash                       100 kills
  python -m bench.crash --kills 10 --seed 7   a short one, with other moments and other users
  python -m bench.crash --program 'python faulty.py'   another server: can the harness fail?
"""
EVERYTHING = 10  # every so many kills, all that was acknowledged is checked instead of a sample
SAMPLE = 100  # older decisions of a campaign, besides all those touched since the last check
EARLY, HASTY = 0.12, 0.13  # shares of kills: before the server is ready, and just after
LONGEST = 0.9  # seconds of load before a kill
FITS, FIT_SECONDS = "fits", 120.0  # the campaign with fits, and how long one of them is waited for
# Fits that are waited for. Each needs more outcomes than the one before, and while clients wait
# for it they fill the ledger, all of which is folded again at every check of everything.
ENOUGH_FITS = 3


def campaign_requests() -> list[dict[str, Any]]:
    """Campaigns that differ in what may go wrong: windows, treatments, clocks, too little money."""
    ends_at = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    base = {
        "horizon": {"users": 100_000},
        "features": ["age", "visits", "basket"],
        "treatments": ["email"],
        "outcome_window_seconds": 86_400,
        "seed": 7,
    }
    return [
        {**base, "name": "windows that pass", "budget": "1000", "outcome_window_seconds": 1},
        {**base, "name": LATE, "budget": "1000", "outcome_window_seconds": 6},
        {**base, "name": "two treatments", "budget": "1000", "treatments": ["email", "call"]},
        {**base, "name": "an end", "budget": "1000", "horizon": {"ends_at": ends_at}},
        {**base, "name": "no money", "budget": "2.0000009", "policy": {"name": "thompson"}},
        {**base, "name": "coupons", "budget": "100", "charge": "conversion", "cost_cap": "2.5"},
        {
            **base,
            "name": "coupons that end",
            "budget": "20",
            "outcome_window_seconds": 2,
            "charge": "conversion",
        },
        {
            **base,
            "name": "20 % off",
            "budget": "100",
            "outcome": {"kind": "amount", "largest": "100"},
            "charge": "conversion",
            "share": 0.02,
        },
        {
            **base,
            "name": "revenue that ends",
            "budget": "1000",
            "outcome_window_seconds": 2,
            "outcome": {"kind": "amount"},
            "charge": "conversion",
            "share": 0.001,
        },
        {
            **base,
            "name": FITS,
            "budget": "1000",
            "policy": {"name": "pooled-trees", "params": {"first_fit": 50}},
        },
    ]


class Harness:
    """One ledger, its clients, and the servers that are killed over it."""

    def __init__(self, folder: Path, seed: int, clients: int, program: Sequence[str]) -> None:
        self.ledger = folder / "crash.sqlite"
        self.program = program
        self.moments = random.Random(seed)  # apart from the samples, whose number varies
        self.samples = random.Random(seed)
        self.faults = Faults()
        self.reader = Reader(self.ledger, self.faults)
        self.books: list[Book] = []
        self.clients = [Client(number, self.books, self.faults, seed) for number in range(clients)]
        self.kills = 0
        self.fits = 0  # that were seen
        self.start_up = 1.0  # seconds, as it was last

    async def kill_once(self) -> None:
        """Start, check, load, kill, and look into the file that was left."""
        kind, everything = self.moments.random(), (self.kills + 1) % EVERYTHING == 0
        server = Server(self.ledger, self.program)
        try:
            if not self.kills or (kind < EARLY and not everything):  # also while the file is made
                await asyncio.sleep(self.moments.uniform(0.0, 1.1 * self.start_up))
            else:
                await self.until_ready(server)
                hasty = kind < EARLY + HASTY and not everything
                if not hasty:
                    await self.check(server, everything)
                seconds = self.moments.uniform(0.0, 0.05 if hasty else LONGEST)
                await self.load(server, seconds, everything)
        finally:
            server.kill()
        self.kills += 1
        self.reader.check(self.books, self.wanted(everything), fold_again=everything)
        if everything:
            self.check_fold()

    async def until_ready(self, server: Server) -> None:
        """Wait for the server, and make the campaigns if there are none."""
        self.start_up = await asyncio.to_thread(server.wait)
        if not self.books:
            for request in campaign_requests():
                self.books.append(Book(server.create(request), request))

    async def load(self, server: Server, seconds: float, fits: bool) -> None:
        """Let the clients send, perhaps until there was a fit, and kill the server under them."""
        living = [asyncio.create_task(client.live(server.port)) for client in self.clients]
        if fits and self.fits < ENOUGH_FITS:
            await self.until_fitted(server)
        await asyncio.sleep(seconds)
        server.kill()
        await asyncio.gather(*living)

    async def until_fitted(self, server: Server) -> None:
        """Wait for one more fit, which takes longer than most servers live; one may not be due."""
        before, began = self.fits, time.perf_counter()
        while self.fits == before and time.perf_counter() - began < FIT_SECONDS:
            await asyncio.sleep(0.1)
            book = next(book for book in self.books if book.request["name"] == FITS)
            _, answer = await asyncio.to_thread(server.call, "GET", f"/v1/campaigns/{book.id}")
            self.fits = max(self.fits, answer["fits"])

    async def check(self, server: Server, everything: bool) -> None:
        """Send again what was not answered; then all there is must be as it was acknowledged."""
        wanted = self.wanted(everything)
        self.reader.check(self.books, wanted, fold_again=False)  # before anything is asked again
        await asyncio.gather(*(client.catch_up(server.port) for client in self.clients))
        checks.check_money(server, self.books, self.faults)
        if everything:
            checks.check_log(server, self.books, self.faults)
        await checks.ask_again(server, self.books, wanted, self.faults)
        checks.check_money(server, self.books, self.faults)
        for book in self.books:
            book.recent.clear()

    def wanted(self, everything: bool) -> dict[str, list[Decision]]:
        """What to check: all, or what is new and a sample of what is old."""
        found = {}
        for book in self.books:
            known = list(book.decisions.values())
            if not everything:
                sample = self.samples.sample(known, min(SAMPLE, len(known)))
                known = list({one.id: one for one in [*book.recent, *sample]}.values())
            found[book.id] = known
        return found

    def check_fold(self) -> None:
        """``bccb ledger verify``: the state is the fold of the whole journal."""
        done = run_bccb("ledger", "verify", self.ledger, program=self.program)
        if done.returncode != 0:
            self.faults.add("state_mismatch", (done.stdout + done.stderr).strip())

    async def end(self) -> None:
        """Check everything once more, and stop the server as one should."""
        server = Server(self.ledger, self.program)
        try:
            await self.until_ready(server)
            await self.check(server, everything=True)
        finally:
            server.stop()
        self.reader.check(self.books, self.wanted(True), fold_again=True)
        self.check_fold()


def options_from(arguments: list[str] | None) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.crash",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kills", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--clients", type=int, default=16, help="at once (default: 16)")
    parser.add_argument("--seed", type=int, default=1, help="of moments and users (default: 1)")
    parser.add_argument("--folder", type=Path, help="where the ledger is written for the while")
    parser.add_argument(
        "--program", type=shlex.split, default=PROGRAM, help="a server in place of bccb"
    )
    return parser.parse_args(arguments)


async def run(harness: Harness, kills: int, progress: Progress) -> None:
    """All the kills, and the check at the end."""
    bar = progress.add_task("kills", total=kills)
    while harness.kills < kills:
        await harness.kill_once()
        line = harness.faults.line(harness.kills)
        progress.update(bar, completed=harness.kills, description=line)
    await harness.end()


def main(arguments: list[str] | None = None) -> None:
    """Read the options, kill, report."""
    options = options_from(arguments)
    notes = Console(stderr=True, highlight=False, soft_wrap=True)
    folder = Path(tempfile.mkdtemp(prefix="bccb-crash-", dir=options.folder))
    harness = Harness(folder, options.seed, options.clients, options.program)
    faults, began = harness.faults, time.perf_counter()
    try:
        with Progress(console=notes, transient=True) as progress:
            asyncio.run(run(harness, options.kills, progress))
    except ServerError as error:
        faults.add("state_mismatch", str(error))
    for example in faults.examples:
        notes.print(example, markup=False)
    late = sum(one.late and one.reported > 0 for book in harness.books for one in book.known())
    answered = sum(client.answered for client in harness.clients)
    decisions = sum(len(book.decisions) for book in harness.books)
    lasted = time.perf_counter() - began
    counts = f"{decisions:,} decisions, {late:,} conversions too late, {harness.fits:,} fits"
    notes.print(f"{answered:,} answers, {counts}, {lasted:.0f} s")
    failed = any(faults.counts.values())
    if failed:
        notes.print(f"the ledger and what the server printed are in {folder}")
    else:
        shutil.rmtree(folder)
    print(faults.line(harness.kills))
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
