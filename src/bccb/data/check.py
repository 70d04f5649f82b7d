"""A first look at any file: which column plays which part, what is wrong, and what comes next."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bccb.data import problems as wrong
from bccb.data import words
from bccb.data.look import Look, first_look, set_aside
from bccb.data.prices import Prices, amount_paid, find_prices
from bccb.data.problems import Problem
from bccb.data.readers import read_log
from bccb.data.roles import (
    USED,
    Arm,
    Part,
    Question,
    Role,
    as_outcomes,
    brought,
    find_arm,
    find_control,
    find_outcome,
    named,
)
from bccb.data.schema import Columns, Cost
from bccb.data.sources import Source, opened
from bccb.data.suspects import judge
from bccb.errors import InputError
from bccb.types import Floats

DESCRIBED = "the file says so"


@dataclass(frozen=True, slots=True)
class Check:
    """What a file looks like."""

    name: str
    rows: int
    looked_at: int  # rows, a random part of a large file
    roles: tuple[Role, ...]  # of every column, in the order of the file
    control: str | None
    control_reason: str
    cost: Cost | None
    cost_reason: str
    problems: tuple[Problem, ...]
    questions: tuple[Question, ...]  # what must be answered first, with an option each
    described: bool  # whether the file itself says what its columns are: no options are needed
    columns: Columns | None  # for `read_log`; None where something must be mended or answered
    users: int = 0  # the rows that `read_log` takes, about so many of a large file


def check(source: Source, columns: Columns | None = None) -> Check:
    """Look at a file or a frame, and propose which column plays which part.

    What ``columns`` names is taken as it is; it may name some roles and leave the others open.
    `Check.columns` is what `read_log` needs.

    >>> import polars
    >>> frame = polars.DataFrame({"arm": ["a", "control"] * 60, "bought": [0, 1, 1, 0] * 30})
    >>> check(frame, Columns(cost=0.5)).columns.control
    'control'
    """
    given = columns or Columns()
    with opened(source) as file:
        look = first_look(file)
        if file.stored is not None and not (given.treatment or given.outcome):
            return _as_described(look, file.columns(given))
    roles = (given.treatment, given.outcome, *given.probability_columns, *given.cost_columns)
    known = {column.name for column in look.columns}
    for name in given.excluded:
        # a preset names all features, and excludes outcomes that may be the one, or are not here
        if name in roles or (given.features and name not in known):
            continue
        named(look.columns, "--exclude", name)
        look.take(Role(name, "excluded", "given", "given with --exclude"))
    set_aside(look, {*roles, *given.features})
    _find_probability(look, given.probability)
    arm = _find_arm(look, given)
    outcomes = _find_outcome(look, arm, given)
    prices = _find_prices(look, arm, outcomes, given)
    _take_features(look, given.features)
    _judge_rest(look, arm, outcomes)
    return _finished(look, arm, outcomes, prices, given)


def _find_probability(look: Look, given: str | None) -> None:
    if given is not None:
        named(look.columns, "--probability", given)
        look.take(Role(given, "probability", "given", "given with --probability"))
        return
    for column in look.rest:
        if column.kind == "number" and words.has(column.name, words.PROBABILITY):
            numbers = column.values.drop_nulls().to_numpy()
            if numbers.min() > 0 and numbers.max() <= 1:
                reason = "its name, and all its values are above 0 and at most 1"
                look.take(Role(column.name, "probability", "likely", reason))
                return


def _find_arm(look: Look, given: Columns) -> Arm | None:
    arm = look.answer(find_arm(look.rest, given.treatment))
    if arm is None:
        return None
    look.take(arm.role)
    arm = look.answer(find_control(arm, given.control, amount_paid(look.rest)))
    return arm if arm is None else arm.only(given.treatments)


def _find_outcome(look: Look, arm: Arm | None, given: Columns) -> Floats | None:
    """The outcomes of all rows, if there is no question about them."""
    role = look.answer(find_outcome(look.rest, arm, given.outcome, given.kind or ""))
    if role is None:
        return None
    look.take(role)
    column = named(look.columns, "--outcome", role.column)
    return look.answer(as_outcomes(column, given.positive))


def _find_prices(
    look: Look, arm: Arm | None, outcomes: Floats | None, given: Columns
) -> Prices | None:
    if arm is None or outcomes is None:
        return None
    cost = None if callable(given.cost) else given.cost
    prices = look.answer(find_prices(look.rest, arm, outcomes, cost))
    if prices is not None:
        look.take(*prices.roles)
        look.warn(*prices.warnings)
        if prices.cost is None:
            text = f"{prices.reason}: give one price, or one for each treatment, such as 0.5,1.2"
            look.questions.append(Question("--cost PRICE", (), text))
    return prices


def _take_features(look: Look, features: tuple[str, ...]) -> None:
    """The features that are given; no other column is one then."""
    for name in features:
        named(look.columns, "--features", name)
    if features:
        others = [column.name for column in look.rest if column.name not in features]
        look.take(*(Role(name, "feature", "given", "given with --features") for name in features))
        look.take(*(Role(n, "excluded", "given", "not among --features") for n in others))


def _judge_rest(look: Look, arm: Arm | None, outcomes: Floats | None) -> None:
    """Features, and what looks like one."""
    targets = {} if outcomes is None else {_column(look, "outcome"): outcomes}
    for name, known in targets.items():
        if named(look.columns, "--outcome", name).is_binary:
            look.warn(*(_can_be_used(c.name, name) for c in look.rest if brought(c, known)))
    named_so = words.OUTCOME | words.MAYBE_OUTCOME
    for column in look.rest:
        is_like = column.is_binary and words.has(column.name, named_so)
        if is_like and not words.is_before(column.name):
            values = as_outcomes(column, None)
            if not isinstance(values, Question):
                targets[column.name] = values
    by_chance = not any(role.part == "probability" for role in look.roles.values())
    judgement = judge(look.rest, arm, targets, by_chance)
    look.take(*judgement.roles)
    look.warn(*judgement.warnings)


def _can_be_used(amounts: str, outcome: str) -> str:
    return (
        f"{amounts} is what each {outcome!r} brought. To count money instead of conversions, use "
        f"--outcome {amounts}."
    )


def _finished(
    look: Look, arm: Arm | None, outcomes: Floats | None, prices: Prices | None, given: Columns
) -> Check:
    """What was found, and what is wrong."""
    found = wrong.of_missing(look.columns, look.roles, look.rows)
    found += wrong.of_levels(look.columns, look.roles)
    found += wrong.of_size(look.rows)
    if arm is not None:
        found += wrong.of_arms(arm, outcomes, look.rows)
    problems = (*look.problems, *found)
    columns, users = None, 0
    if arm and prices and not look.questions and not any(one.blocks for one in problems):
        columns = _columns(look, arm, prices, given)
        taken = _users(look, columns)
        if isinstance(taken, Problem):
            problems, columns = (*problems, taken), None
        else:
            users = taken
    return Check(
        name=look.name,
        rows=look.rows,
        looked_at=look.frame.height,
        roles=tuple(look.roles[column.name] for column in look.columns),
        control=arm.control if arm else None,
        control_reason=arm.control_reason if arm else "",
        cost=prices.cost if prices else None,
        cost_reason=prices.reason if prices else "",
        problems=problems,
        questions=tuple(look.questions),
        described=False,
        columns=columns,
        users=users,
    )


def _columns(look: Look, arm: Arm, prices: Prices, given: Columns) -> Columns:
    assert arm.control is not None
    probability = [role.column for role in look.roles.values() if role.part == "probability"]
    return replace(
        given,
        treatment=arm.column.name,
        control=arm.control,
        outcome=_column(look, "outcome"),
        cost=prices.cost,
        probability=probability[0] if probability else None,
        impute=given.impute
        or any(
            column.missing and look.roles[column.name].part in ("feature", "date")
            for column in look.columns
        ),
        excluded=tuple(
            column.name for column in look.columns if look.roles[column.name].part not in USED
        ),
    )


def _users(look: Look, columns: Columns) -> int | Problem:
    """How many rows the reader takes, or what it says of them: what it refuses is not proposed."""
    try:
        taken = read_log(look.frame, columns).users
    except InputError as error:
        return Problem(None, f"{error}.", blocks=True)
    return taken * look.rows // max(look.frame.height, 1)


def _column(look: Look, part: str) -> str:
    return next(role.column for role in look.roles.values() if role.part == part)


def _as_described(look: Look, described: Columns) -> Check:
    """What a file says of its own columns."""
    parts: dict[str, Part] = dict.fromkeys(described.cost_columns, "cost")
    parts |= dict.fromkeys(described.features, "feature")
    parts |= dict.fromkeys(described.probability_columns, "probability")
    parts |= dict.fromkeys(described.status_columns, "status")
    parts |= dict.fromkeys(described.charge_columns, "charge")
    parts |= {described.treatment: "arm", described.outcome: "outcome"}
    look.take(
        *(Role(c.name, parts.get(c.name, "excluded"), "clear", DESCRIBED) for c in look.columns)
    )
    found, outcome = wrong.of_size(look.rows), named(look.columns, "--outcome", described.outcome)
    users = _users(look, described)
    if described.status is not None and outcome.missing:
        text = f"{outcome.missing:,} of {look.rows:,} decisions have no outcome."
        early = replace(described, closed=True)
        before = _users(look, early)
        if isinstance(users, Problem) and not isinstance(before, Problem):
            described, users = early, before
            text += " Some are open still: --closed reads those before the oldest open one."
        found.append(Problem(outcome.name, text))
    problems = (*found, users) if isinstance(users, Problem) else tuple(found)
    return Check(
        look.name, look.rows, look.frame.height,
        roles=tuple(look.roles[column.name] for column in look.columns),
        control=described.control, control_reason=DESCRIBED,
        cost=described.cost, cost_reason=DESCRIBED,
        problems=problems, questions=(), described=True,
        columns=None if any(one.blocks for one in problems) else described,
        users=0 if isinstance(users, Problem) else users,
    )  # fmt: skip
