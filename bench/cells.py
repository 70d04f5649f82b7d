"""What cells cost: the value that a campaign keeps when it is cut into cells that learn alone.

Users of the simulator's world go to cells at random. Each cell has its part of the money and plans
for its part of the users; with moves, money goes to where it is spent, by the service's own rule,
after every hundredth of the users. A cell sees fewer outcomes than the whole would: that is what
it costs.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import bccb
from bccb.data.world import World, simulate_world
from bccb.evaluate.live import outcomes_in, value_of
from bccb.evaluate.proposals import KNOWN, drive
from bccb.ledger.port import Account
from bccb.policy import Policy
from bccb.serve.moves import due
from bccb.types import Floats, Ints

MONEY = 0.05  # for each user
SETUPS = ((400_000, 2), (400_000, 4), (400_000, 8), (100_000, 16))  # users, cells
LOOKS = 100  # at the money of cells
POLICIES = ("pooled-bayes", "pooled-trees")


@dataclass(frozen=True, slots=True)
class Row:
    """One campaign in cells, beside the same campaign whole."""

    policy: str
    users: int
    cells: int
    moves: bool
    seed: int
    value: float  # what the treatments caused
    whole: float  # the same without cells

    @property
    def lost(self) -> float:
        """The share of the value that cells cost."""
        return 1.0 - self.value / self.whole


def value_in_cells(world: World, policy: str, cells: int, seed: int, moves: bool) -> float:
    """What a campaign in cells causes in a world."""
    d, K = world.features.shape[1], world.costs.shape[1]
    machines = [
        bccb.make(
            policy,
            budget=MONEY * world.users / cells,
            horizon=math.ceil(world.users / cells),
            features=d,
            treatments=K,
            seed=1_000 * seed + cell,
        )
        for cell in range(cells)
    ]
    cell_of = np.random.default_rng((seed, cells)).integers(cells, size=world.users)
    outcomes, actions = outcomes_in(world), np.zeros(world.users, np.int64)
    for part in np.array_split(np.arange(world.users), LOOKS if moves else 1):
        for cell, machine in enumerate(machines):
            _decide(machine, world, outcomes, part[cell_of[part] == cell], actions)
        if moves:
            _level(machines)
    return value_of(actions, world)


def _decide(
    machine: Policy,
    world: World,
    outcomes: Floats,
    rows: Ints,
    actions: Ints,
) -> None:
    if len(rows):
        course = drive(machine, rows, world.features, world.micros, KNOWN, outcomes)
        actions[rows] = course.actions


def _level(machines: list[Policy]) -> None:
    """Move money, as the service does once a second."""
    for _ in range(2 * len(machines)):
        rows = [
            Account(key, str(key), "", 0, 0, 0, machine.remaining_micros, 0, 0)
            for key, machine in enumerate(machines)
        ]
        move = due(rows)
        if move is None:
            return
        machines[move.giver.key].shift_micros(-move.micros)
        machines[move.receiver.key].shift_micros(move.micros)


def measure(policy: str, seed: int) -> list[Row]:
    """All setups with one seed; each is compared with the whole in the same world."""
    rows: list[Row] = []
    for users in sorted({users for users, _ in SETUPS}, reverse=True):
        world = simulate_world(users, seed)
        whole = value_in_cells(world, policy, 1, seed, moves=False)
        for cells in (cells for n, cells in SETUPS if n == users):
            for moves in (False, True):
                value = value_in_cells(world, policy, cells, seed, moves)
                rows.append(Row(policy, users, cells, moves, seed, value, whole))
    return rows


def table(rows: list[Row]) -> str:
    """The mean loss of each setup over the seeds, with its standard error, as Markdown."""
    lines = ["| policy | users | cells | apart | money moves |", "|---|---:|---:|---:|---:|"]
    for policy in dict.fromkeys(row.policy for row in rows):
        for users, cells in SETUPS:
            some = [r for r in rows if (r.policy, r.users, r.cells) == (policy, users, cells)]
            shown = [_shown([r.lost for r in some if r.moves == moves]) for moves in (False, True)]
            lines.append(f"| {policy} | {users:,} | {cells} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _shown(lost: list[float]) -> str:
    error = statistics.stdev(lost) / math.sqrt(len(lost)) if len(lost) > 1 else math.nan
    return f"{100 * statistics.mean(lost):.1f} ± {100 * error:.1f} %"


def main() -> None:
    """Read the options, measure, report."""
    parser = argparse.ArgumentParser(prog="python -m bench.cells", description=__doc__)
    parser.add_argument("--seeds", type=int, default=8, help="worlds to average over")
    parser.add_argument("--policy", action="append", choices=POLICIES, help="[default: the first]")
    parser.add_argument("--out", type=Path, help="a file for all rows, as JSON")
    options = parser.parse_args()
    rows: list[Row] = []
    for policy in options.policy or POLICIES[:1]:
        for seed in range(options.seeds):
            rows += measure(policy, seed)
            print(f"{policy}: seed {seed + 1} of {options.seeds}", file=sys.stderr)
            if options.out is not None:
                options.out.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
