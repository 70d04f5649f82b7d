"""The study of what can be trusted: one record for each experiment, and how all are run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bccb.data.worlds import ABOUT
from bccb.errors import InputError
from bccb.evaluate.parallel import OnProgress
from bccb.evaluate.statistics import LEVEL
from bccb.experiments import (
    trust,
    trust_amounts,
    trust_caused,
    trust_claims,
    trust_late,
    trust_money,
    trust_tables,
    trust_worlds,
)
from bccb.experiments.experiment import Claim, Experiment, Findings, Record, Results, Study
from bccb.experiments.plan import source_of
from bccb.experiments.report import Report
from bccb.experiments.store import open_store
from bccb.experiments.trust import MONEY, Piece, Setup, execute
from bccb.policies import DEFAULT
from bccb.report.trust_figures import (
    caused_intervals,
    late_shares,
    regret_curves,
    share_intervals,
    world_shares,
)


def rows_of(pieces: Sequence[Piece], results: Results) -> list[Record]:
    """All the rows that these pieces made."""
    return [row for piece in pieces for row in results(piece)["rows"]]


def from_lives(table: Callable[[Setup, list[Record]], list[Record]]) -> Callable[..., list[Record]]:
    """A table of what policies cause live."""
    return lambda setup, results: table(setup, rows_of(trust.lives(setup), results))


def value_claims(findings: Findings) -> list[Claim]:
    """What policies cause, against the oracle and against each other."""
    setup = findings.setup
    rows = rows_of(trust.lives(setup), findings.results)
    return [
        trust_claims.below_the_oracle(rows),
        trust_claims.least_regret(setup, rows),
        trust_claims.cost_of_the_reserve(setup, rows),
    ]


def estimator_claims(findings: Findings) -> list[Claim]:
    """Bias and coverage."""
    rows, count = findings.tables["estimators"], findings.setup.repetitions
    judges = (trust_claims.unbiased, trust_claims.covering, trust_claims.covering_own_log)
    return [judge(rows, count) for judge in judges]


def copy_claims(findings: Findings) -> list[Claim]:
    """How often two copies of one policy differ, by each test."""
    tests = ("paired t", "paired bootstrap")
    return [trust_claims.copies_seldom_differ(findings.tables["twins"], test) for test in tests]


def caused_claims(findings: Findings) -> list[Claim]:
    """Coverage of both figures, and how much narrower one is than the other."""
    judges = (
        trust_claims.estimate_covers,
        trust_claims.estimate_covers_after_history,
        trust_claims.estimate_is_narrow,
        trust_claims.measure_covers,
    )
    return [judge(findings.tables["caused"]) for judge in judges]


def amounts_claims(findings: Findings) -> list[Claim]:
    """A policy that learns amounts against one that counts conversions."""
    table, count = findings.tables["amounts"], len(trust_amounts.seeds(findings.setup))
    judges = (
        trust_amounts.never_worse,
        trust_amounts.takes_what_differs,
        trust_amounts.stands_a_huge_order,
    )
    return [judge(table, count) for judge in judges]


def late_rows(setup: Setup, results: Results) -> list[Record]:
    """What every learner causes where outcomes are late."""
    return rows_of(trust_late.every_learner(setup), results)


def delay_rows(setup: Setup, results: Results) -> list[Record]:
    """What the default policy causes with each kind of delays: the usual ones first."""
    usual = [row for row in late_rows(setup, results) if row["policy"] == DEFAULT]
    return usual + rows_of(trust_late.every_case(setup), results)


def worlds_of(findings: Findings) -> int:
    """How many worlds with late outcomes there are."""
    return len(trust_late.worlds(findings.setup))


def world_claims(findings: Findings) -> list[Claim]:
    """Our default against treating nobody, and against ignoring effects."""
    rows = rows_of(trust_worlds.every_world(findings.setup), findings.results)
    return [trust_claims.harms_nowhere(rows), trust_claims.ahead_of_naive(rows)]


def intro(facts: Mapping[str, Any]) -> list[str]:
    """What was run."""
    setup = facts["setup"]
    seeds = {row["users"]: row["seeds"] for row in facts["tables"].get("curves", ())}
    listed = ", ".join(f"{users:,} ({count})" for users, count in seeds.items())
    listed = f"Users (and seeds): {listed}; a" if seeds else "A"
    return [
        "`bccb trust` on simulated users, whose truth is known. "
        f"{listed} budget of {setup['money']:g} for each user; the table of values is at "
        f"{setup['middle']:,} users. Policies that need history have {setup['history']:,} rows.",
        *_run_apart(facts.get("apart", {})),
    ]


def _run_apart(apart: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Which tables are of another run, with more seeds or fewer."""
    titles: dict[tuple[int, int], list[str]] = {}
    for name, setup in apart.items():
        titles.setdefault((setup["seeds"], setup["middle"]), []).append(TRUST[name].title)
    return [
        f"Run apart, with `--seeds {seeds}` and up to {middle:,} users: *{'*, *'.join(each)}*."
        for (seeds, middle), each in titles.items()
    ]


TRUST = Study(
    "trust",
    "What can be trusted",
    (
        Experiment(
            "values",
            "What every policy causes",
            "Users are decided on live: a policy pays for every treatment and learns the outcome "
            "of every decision. value is the sum of the true effects over the users it treated, "
            "share that of the oracle's, which knows the effects and has the best fixed price; "
            "regret is what is missing. conversions are those of treated users, caused or not. ± "
            f"is the standard error over seeds. {trust.UNRESERVED} is {DEFAULT} that draws no "
            "decision at random (reserve=0): what is between the two is the price of keeping "
            "overlap in the log.",
            plan=trust.lives,
            table=from_lives(trust_tables.values),
            claims=value_claims,
            unprinted_columns=lambda setup: ("treated",),
        ),
        Experiment(
            "exponents",
            "How regret grows",
            "Mean regret at each number of users T, with the same money for each user, and the "
            "exponent b of regret ~ T^b: the slope of log regret on log T by least squares over "
            "all T, with its standard error, and late, the same over the last decade of T alone, "
            "with the standard error that the seeds leave. 1 is a policy that goes on losing as "
            "much on each user; below 1 it learns. A reserve of random choices loses a fixed share "
            "of the value, and so does a model that cannot become the truth: at a low level their "
            "exponents rise towards 1 in the end.",
            plan=trust.lives,
            table=from_lives(trust_tables.exponents),
            claims=lambda findings: [trust_claims.slower_than_users(findings.tables["exponents"])],
            unprinted_columns=lambda setup: [trust_tables.short(n) for n in setup.sizes[1::2]],
        ),
        Experiment(
            "worlds",
            "In every world",
            "Users of sixteen kinds, in long and in short campaigns, decided on live. Each figure "
            "is what a policy causes as a share of what the oracle does with the same money: 1 is "
            "as good, 0 as treating nobody, and below 0 it does harm. In each row the best is "
            "bold, the worst has the sign ▾. A policy that cannot be fitted on its history treats "
            "nobody. cheapest-first and response-first ignore effects: where they are ahead, "
            "learning effects does not pay. "
            f"The worlds: {'; '.join(f'{name}, {about}' for name, about in ABOUT.items())}.",
            plan=trust_worlds.every_world,
            table=lambda setup, results: trust_worlds.table(
                rows_of(trust_worlds.every_world(setup), results)
            ),
            figure=world_shares,
            claims=world_claims,
            unprinted_columns=lambda setup: [
                name for name in trust_worlds.NAMES if name not in trust_worlds.PRINTED
            ],
            split_by="users",
            ranked=trust_worlds.NAMES,
        ),
        Experiment(
            "late",
            "When outcomes come late",
            "Only conversions are reported, after exponential delays with a mean of 0.1 of the "
            "campaign; the window is 0.5 of it. Conversions: as many users as in the table of "
            "values; visits: a fifth of them. Each figure is a share of the oracle's value, the "
            "mean over worlds ± its standard error. at once is the limit: every outcome is known "
            "when the next user comes. earlier is what the service did before: it learned "
            "conversions when they were reported, and zeros when the window ended. ageing is what "
            "it does now: a user without a report counts as a non-conversion with a weight that "
            "grows with time. gain is ageing less earlier; a learner is no worse if its "
            "gain, with an interval that allows for all rows, is known to be above -0.01. Policies "
            "that do not learn from outcomes are left out.",
            plan=trust_late.every_learner,
            table=lambda setup, results: trust_tables.late(late_rows(setup, results)),
            figure=late_shares,
            claims=lambda findings: [
                trust_claims.no_worse_late(findings.tables["late"], worlds_of(findings))
            ],
            unprinted_columns=lambda setup: [f"{way}_se" for way in trust_tables.WAYS],
        ),
        Experiment(
            "delays",
            "When delays are of another kind",
            f"The same for {DEFAULT}, with delays that are not exponential, that "
            "differ between the arms, or with a window that ends after the campaign. The mean is "
            "0.1 of the campaign, of users who are not treated where the arms differ. kept is "
            "ageing as a share of at once. Conversions that come after the window are lost: 3 to 4 "
            "% with Weibull and log-normal delays, 8 % of treated users who convert half as fast.",
            plan=lambda setup: [
                *trust_late.every_learner(setup),
                *trust_late.every_case(setup),
            ],
            table=lambda setup, results: trust_tables.delays(delay_rows(setup, results)),
            claims=lambda findings: [
                trust_claims.keeps_late(findings.tables["delays"], worlds_of(findings))
            ],
            unprinted_columns=lambda setup: [f"{way}_se" for way in trust_tables.WAYS],
        ),
        Experiment(
            "charged",
            "When costs are charged on conversion",
            "A treatment costs something only if the user converts. Budgets for 100,000 users: "
            "60 in the world like Criteo, 1,000 in the others. Each figure is a share of what an "
            "oracle causes that knows the true expected cost, the mean over seeds ± its standard "
            "error. whole cost: the earlier rule, which compares the effect with the whole cost, "
            "and has it returned without a conversion. expected cost: what is done now. spent is "
            "the share of the budget.",
            plan=trust_money.every_charge,
            table=lambda setup, results: trust_money.charged_table(
                rows_of(trust_money.every_charge(setup), results)
            ),
            claims=lambda findings: [
                trust_money.reaches_the_oracle(
                    findings.tables["charged"], len(trust_money.seeds(findings.setup))
                )
            ],
        ),
        Experiment(
            "capped",
            "When a conversion may cost only so much",
            f"{DEFAULT} with a cost cap: half of what the oracle pays for the last conversion that "
            "its budget buys, so that money is left over. relative cost is what each conversion "
            "that was caused really cost, as a share of the cap; left the share of the budget that "
            "bought nothing; share that of what the oracle causes with the same cap.",
            plan=trust_money.every_cap,
            table=lambda setup, results: trust_money.capped_table(
                rows_of(trust_money.every_cap(setup), results)
            ),
            claims=lambda findings: [
                trust_money.keeps_the_cap(
                    findings.tables["capped"], len(trust_money.seeds(findings.setup))
                )
            ],
        ),
        Experiment(
            "amounts",
            "When outcomes are amounts of money",
            "A conversion, or a visit, brings a log-normal amount: the logarithm has a deviation "
            "of 0.8, and its mean is 3 plus variation times a random direction of the features. "
            "Each figure is a share of what an oracle causes in money that knows what each user is "
            f"worth, the mean over seeds. amounts is {DEFAULT} made for amounts, rates the same "
            "policy that counts conversions, gain their difference ± its standard error, and "
            "ceiling the oracle that takes every conversion for the same. In the last row "
            "one user orders for 100,000, whether treated or not.",
            plan=trust_amounts.every_stream,
            table=lambda setup, results: trust_amounts.amounts_table(
                rows_of(trust_amounts.every_stream(setup), results)
            ),
            claims=amounts_claims,
        ),
        Experiment(
            "amounts-caused",
            "Is it true what a campaign says that it caused, in money?",
            f"{DEFAULT} made for amounts, in worlds of the table above with visits, a tenth of the "
            "users. The columns are those of the same question about conversions below. Measured "
            f"is what was caused of amounts up to {trust_amounts.LARGEST:,.0f} each (largest).",
            plan=trust_amounts.every_told,
            table=lambda setup, results: trust_tables.caused(
                rows_of(trust_amounts.every_told(setup), results), by=("variation",)
            ),
            claims=lambda findings: [
                trust_amounts.covers_in_money(findings.tables["amounts-caused"], name)
                for name in ("covered", "held")
            ],
            unprinted_columns=lambda setup: (
                *("worlds", "relative_width", "relative_width_se"),
                *("measured_low", "measured_high"),
            ),
        ),
        Experiment(
            "estimators",
            "Are the estimates right?",
            "Logs of decisions are simulated, and what they caused is estimated. bias is the mean "
            "error ± its standard error, covered the share of 95 % intervals that hold the truth, "
            "with the binomial interval of that share; width is that of the intervals of the "
            "estimates.",
            plan=trust.estimates,
            table=lambda setup, results: trust_tables.estimators(
                rows_of(trust.estimates(setup), results)
            ),
            figure=lambda rows: share_intervals(rows, "covered", trust_claims.COVERED),
            claims=estimator_claims,
            unprinted_columns=lambda setup: ("truth", "width"),
        ),
        Experiment(
            "caused",
            "Is it true what a campaign says that it caused?",
            f"{DEFAULT} with its usual reserve (1 % of decisions at random), asked with "
            "policy.caused(). Conversions: as many users as in the table of values; visits: a "
            "fifth of them. truth is the sum of the true effects over the users it treated, the "
            "mean over worlds. Estimated, by the model: bias is the mean error ± its standard "
            "error, above 0 where the model says too much, covered the share of worlds where the "
            "truth is inside its 95 % interval at the end, width the mean width of that interval. "
            "Measured, by the random decisions alone: held is the share of worlds where its 95 % "
            "interval held, at all of 60 looks, what really was caused, the outcomes of the "
            "treated users less those of the same users left alone; then the mean ends of that "
            "interval at the end, and its mean width. relative width is width / measured width ± "
            "its standard error. Where outcomes are late, conversions alone are reported, with "
            "delays and window as above, and the looks go on until the last window has ended. "
            "after history: 20,000 rows of a trial are learned first, on other users, whose odds "
            "were 1.3 times as high, and for whom treatments did twice as much. Each world is met "
            "by one row alone. The shares of the claims are of the worlds with outcomes at once, "
            "all rows together; those after history have a claim of their own.",
            plan=trust_caused.every_cell,
            table=lambda setup, results: trust_tables.caused(
                rows_of(trust_caused.every_cell(setup), results)
            ),
            figure=caused_intervals,
            claims=caused_claims,
            unprinted_columns=lambda setup: (
                *("worlds", "bias", "bias_se", "relative_width_se"),
                *("measured_low", "measured_high", "measured_width"),
            ),
        ),
        Experiment(
            "twins",
            "Do equals look equal?",
            "Two copies of one policy, which differ in their own draws alone, are compared over 20 "
            "streams by our paired tests. differ is the share of comparisons with p < 0.05, or "
            "whose bootstrap interval leaves out 0, with its binomial interval; it should be 5 %. "
            "The bootstrap takes expanded percentiles, which allow for 20 pairs; heavy tails, "
            f"which the differences of {DEFAULT} have on short streams, are not allowed for.",
            plan=trust.copies,
            table=lambda setup, results: trust_tables.twins(rows_of(trust.copies(setup), results)),
            figure=lambda rows: share_intervals(rows, "differ", (0.0, LEVEL)),
            claims=copy_claims,
        ),
        Experiment(
            "curves",
            "Value and regret at every size",
            "The figures behind the exponents. ± is the standard error over seeds.",
            plan=trust.lives,
            table=from_lives(trust_tables.curves),
            figure=regret_curves,
            printed=False,
        ),
    ),
    intro=intro,
    ours=DEFAULT,
    rules=(
        "The verdict is 'cannot tell' where a figure lies within chance of its limit, or there are "
        "fewer than 5 seeds (in a world: 2), fewer than 500 repetitions, or so few comparisons "
        "that the interval of their share is wider than 5 points. A claim about several figures "
        "shares its 5 % among them."
    ),
)


def beside(facts: Record, folder: str | Path | None) -> Record:
    """The figures of a run, and those tables of the report in a folder that it did not make."""
    path = None if folder is None else Path(folder) / f"{TRUST.name}.json"
    if path is None or not path.exists():
        return facts
    try:
        # through JSON, so that what is the same compares as the same
        fresh, before = json.loads(json.dumps(facts)), json.loads(path.read_text(encoding="utf-8"))
        kept = {
            name: rows for name, rows in before["tables"].items() if name not in fresh["tables"]
        }
        claims = [claim for claim in before["claims"] if claim["experiment"] in kept]
        setups = {name: before.get("apart", {}).get(name, before["setup"]) for name in kept}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            str(path), repr(error), "a report of this version: delete the file"
        ) from None
    if not kept:
        return facts
    setups |= dict.fromkeys(fresh["tables"], fresh["setup"])
    names = [name for name in TRUST.names if name in setups]
    tables, claims = kept | fresh["tables"], claims + fresh["claims"]
    return {
        "setup": before["setup"],
        "apart": {name: setups[name] for name in names if setups[name] != before["setup"]},
        "claims": sorted(claims, key=lambda claim: names.index(claim["experiment"])),
        "tables": {name: tables[name] for name in names},
    }


def run_trust(
    setup: Setup | None = None,
    *,
    only: Sequence[str] | None = None,
    jobs: int = 1,
    folder: str | Path | None = None,
    progress: OnProgress | None = None,
    **sizes: Any,
) -> Report:
    """Measure what policies cause and whether our figures are right, where the truth is known.

    ``only`` names some of the experiments. ``sizes`` are the fields of `Setup`, where none is
    given. What is stored in ``folder``, where there is one, is not run again, and the other tables
    of a report there stay in it.
    """
    setup, names = setup or Setup(**sizes), TRUST.chosen(only)
    with open_store(folder, "trust.jsonl") as store:
        pieces: list[Piece] = TRUST.tasks(setup, names)
        done = sum(store.get(source_of(piece)) is not None for piece in pieces)
        for piece in execute(pieces, store, jobs):
            done += 1
            if progress is not None:
                progress(done, len(pieces), piece.kind)
        findings = TRUST.conclude(setup, names, lambda piece: store[source_of(piece)])
        facts = {
            "setup": {**asdict(setup), "middle": setup.middle, "money": MONEY},
            "claims": [
                {"experiment": name, **asdict(claim)}
                for name in findings.tables
                for claim in TRUST[name].claims(findings)
            ],
            "tables": findings.tables,
        }
        return Report(TRUST, beside(facts, folder))
