"""An experiment is one record: its plan, table, text, figure, published figures and claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from bccb.errors import InputError
from bccb.report.html import Section
from bccb.report.rows import Row

Verdict: TypeAlias = Literal["holds", "does not hold", "cannot tell"]
Record: TypeAlias = dict[str, Any]  # a row of a table while it is made
Rows: TypeAlias = Sequence[Row]
Results: TypeAlias = Callable[[Any], Mapping[str, Any]]  # what was stored for a planned task


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim with its verdict and the figure that decides it."""

    text: str
    verdict: Verdict
    figure: str


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of a study: every planned task's result, and the tables made from them."""

    setup: Any
    results: Results
    tables: Mapping[str, Rows]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment of a study; ``setup`` says how large the study is.

    Tasks that several experiments plan are run once.
    """

    name: str
    title: str
    text: str
    plan: Callable[[Any], Sequence[Any]]  # setup -> tasks
    table: Callable[[Any, Results], list[Record]]  # setup, results -> rows
    figure: Callable[[Rows], str] | None = None  # rows -> SVG
    published: Rows | None = None  # with the columns of the table
    claims: Callable[[Findings], list[Claim]] = lambda findings: []
    printed: bool = True  # in the terminal, where it is not too long
    unprinted_columns: Callable[[Any], Sequence[str]] = lambda setup: ()  # too wide for it
    split_by: str = ""  # a column: each of its values has a table of its own
    ranked: Sequence[str] = ()  # columns of which each row's best and worst are marked


@dataclass(frozen=True, slots=True)
class Study:
    """Experiments that are run and reported together."""

    name: str
    title: str
    experiments: tuple[Experiment, ...]
    intro: Callable[[Mapping[str, Any]], list[str]]  # what was run, from the report's figures
    ours: str  # the policy that stands out
    rules: str = ""  # how verdicts are reached
    extra: Callable[[Findings], list[Section]] = lambda findings: []

    def __getitem__(self, name: str) -> Experiment:
        return next(one for one in self.experiments if one.name == name)

    @property
    def names(self) -> list[str]:
        """The names of its experiments, in their order."""
        return [one.name for one in self.experiments]

    def chosen(self, only: Sequence[str] | None) -> list[str]:
        """The names of the experiments to run: these, in their order, or all."""
        for name in only or ():
            if name not in self.names:
                raise InputError("only", name, f"one of {', '.join(self.names)}")
        return [name for name in self.names if not only or name in only]

    def tasks(self, setup: Any, names: Sequence[str]) -> list[Any]:
        """What these experiments plan, each task once."""
        return list(dict.fromkeys(task for name in names for task in self[name].plan(setup)))

    def conclude(self, setup: Any, names: Sequence[str], results: Results) -> Findings:
        """The tables of these experiments."""
        tables = {name: self[name].table(setup, results) for name in names}
        return Findings(setup, results, tables)

    def judge(self, findings: Findings) -> list[Claim]:
        """Every claim that these findings can judge."""
        return [claim for name in findings.tables for claim in self[name].claims(findings)]
