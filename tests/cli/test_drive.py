"""``bccb drive`` against the real service in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

import numpy as np
import pytest
from processes import serving, until

from bccb.cli import main
from bccb.cli.drive import _last_report
from bccb.cli.traffic import Drive, LoggedTraffic, Plan, SimulatedTraffic
from bccb.client import Campaign, Client, DecisionAnswer, Outcome, ServiceError, User
from bccb.data import simulate, write_log
from bccb.data.simulator import load_model
from bccb.data.world import simulate_world, with_amounts
from bench.service.process import PROGRAM, START_SECONDS

FAST = ("--rate", "0", "--budget", "20")
COLUMNS = ("--treatment", "arm", "--control", "none", "--outcome", "sale", "--cost", "0.5")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service with an empty ledger."""
    with serving(tmp_path_factory.mktemp("service") / "ledger.sqlite") as server:
        yield server.address


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as client:
        yield client


@dataclass
class Ran:
    """How a command ended, its white space in single blanks."""

    status: int
    out: str
    notes: str


Run: TypeAlias = Callable[..., Ran]


@pytest.fixture
def drive(url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("BCCB_URL", url)
    monkeypatch.setenv("COLUMNS", "120")

    def command(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["bccb", "drive", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        printed = capsys.readouterr()
        out, notes = (" ".join(text.split()) for text in printed)
        return Ran(int(stopped.value.code or 0), out, notes)

    return command


def driven(client: Client, ran: Ran) -> Campaign:
    """The campaign that a command drove."""
    result = re.search(r"driving campaign (\w+):", ran.notes)
    assert result is not None, ran
    return client.campaign(result[1])


def log_of(client: Client, campaign: Campaign, folder: Path) -> list[dict[str, Any]]:
    path = client.download_log(campaign, folder / "log.ndjson", "ndjson")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_simulated_users_answer_as_the_world_says(
    drive: Run, client: Client, tmp_path: Path
) -> None:
    ran = drive("--users", 60, *FAST, "--batch", 7, "--seed", 3)
    assert ran.status == 0, ran
    campaign = driven(client, ran)
    assert (campaign.mode, campaign.decisions, campaign.pending) == ("live", 60, 0)
    assert campaign.spent <= campaign.budget == 20
    assert campaign.treatments == ("offer",)
    world, rows = simulate_world(60, 3, "visit"), log_of(client, campaign, tmp_path)
    assert len(rows) == 60
    for row in rows:
        user = int(row["decision_id"].rpartition("-")[2])
        action = ("control", "offer").index(row["treatment"])
        assert row["outcome"] == (world.draws[user] < world.rates[user, action])
        assert row["cost"] == pytest.approx(world.costs[user, 0], abs=2e-6)
        assert row["f3"] == world.features[user, 3]


def test_a_simulated_user_answers_to_what_was_done_to_them() -> None:
    world = simulate_world(2_000, 3, "visit", treatments=2)
    traffic = SimulatedTraffic(world, load_model().names, ("mail", "call"))
    answers = (world.draws[:, None] < world.rates).tolist()
    row = next(row for row, each in enumerate(answers) if each == [False, True, False])
    for name, value, action in ((None, 0.0, 0), ("mail", 1.0, 1), ("call", 0.0, 2)):
        decided = DecisionAnswer("a", name, 0.5, 0.0, Decimal(0), act=True)
        assert traffic.outcome(row, decided) == Outcome("a", value)
        effect = world.rates[row, action] - world.rates[row, 0]
        assert traffic.caused(row, decided) == pytest.approx(effect)


def test_simulated_users_bring_amounts(drive: Run, client: Client, tmp_path: Path) -> None:
    ran = drive("--amounts", "--users", 60, *FAST, "--batch", 7, "--seed", 3)
    assert ran.status == 0, ran
    campaign = driven(client, ran)
    assert (campaign.outcome.kind, campaign.outcome.negative) == ("amount", False)
    assert campaign.outcome.largest == 1_000
    world = with_amounts(simulate_world(60, 3, "visit"), 0.5, 3)
    assert world.amounts is not None
    rows = log_of(client, campaign, tmp_path)
    for row in rows:
        user = int(row["decision_id"].rpartition("-")[2])
        action = ("control", "offer").index(row["treatment"])
        converts = world.draws[user] < world.rates[user, action]
        assert row["outcome"] == (world.amounts.drawn[user] if converts else 0.0)
    value = sum(row["outcome"] for row in rows)
    assert campaign.value == pytest.approx(value)
    assert value > 0.0
    assert f"value {value:,.2f}" in ran.out
    assert re.search(r"return on spend -?[\d.,]+ \(95 %", ran.out)
    effects = world.effects[:, 0]
    treated = [
        int(row["decision_id"].rpartition("-")[2]) for row in rows if "offer" in row.values()
    ]
    assert f"really caused {effects[treated].sum():,.1f}" in ran.out
    again = drive("--campaign", campaign.id, "--users", 10, "--rate", 0, "--seed", 3)
    assert again.status == 0, again
    assert client.campaign(campaign).decisions == 70


def test_the_table_tells_what_came_of_it(drive: Run, client: Client, url: str) -> None:
    ran = drive("--users", 60, *FAST)
    campaign = driven(client, ran)
    spent = campaign.spent + campaign.reserved
    for line in (
        r"users 60 in \d+\.\d s",
        rf"treated {campaign.treated} spent {spent:.2f} of 20\.00",
        r"conversions \d+",
        r"caused, estimated -?[\d,.]+ \(95 %: -?[\d,.]+ to -?[\d,.]+\), by the model",
        r"caused, measured Too few users yet: until 1,050 were treated whose outcomes are known, "
        r"the measured interval excludes next to nothing\.",
        r"really caused -?\d+\.\d, known because the users are simulated",
        r"decisions per second [\d,]+",
        r"latency \d+\.\d ms at the median, \d+\.\d ms at 99 %",
        f"the page: {url}/#/campaigns/{campaign.id}",
    ):
        assert re.search(line, ran.out), (line, ran.out)


def test_what_is_measured_of_enough_users_is_shown_with_its_interval(
    drive: Run, client: Client
) -> None:
    campaign = client.create_campaign(
        name="much at random",
        budget=500,
        users=200,
        features=list(load_model().names),
        treatments=["mail"],
        policy="pooled-bayes",
        params={"reserve": 0.5},
    )
    ran = drive("--campaign", campaign.id, "--users", 100, "--rate", "0")
    line = r"caused, measured -?[\d,.]+ \(95 %: -?[\d,.]+ to -?[\d,.]+\), by random decisions"
    assert re.search(line, ran.out), ran


def test_the_summary_waits_for_the_last_fit(client: Client) -> None:
    """What the policy has learned by then was not in the figures that were printed."""
    campaign = client.create_campaign(
        name="last fit",
        budget=100,
        users=400,
        features=["age"],
        treatments=["mail"],
        params={"first_fit": 150, "reserve": 0.5},
    )
    users = [User({"age": i / 200}, {"mail": "0.50"}, f"u{i}") for i in range(200)]
    client.decide_many(campaign, users)
    client.report_outcomes(campaign, [Outcome(f"u{i}", float(i % 7 < 2)) for i in range(200)])
    report = _last_report(client, campaign)
    assert (report.campaign.fit_due, report.campaign.fits) == (False, 1)


def test_a_fit_that_fails_does_not_hold_up_the_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Due:
        def report(self, campaign: Any) -> Any:
            asked.append(campaign)
            return SimpleNamespace(campaign=SimpleNamespace(fit_due=True))

    monkeypatch.setattr("bccb.cli.drive.FIT_SECONDS", 0.3)
    assert _last_report(cast("Client", Due()), cast("Campaign", "c")).campaign.fit_due
    assert len(asked) > 1


def test_a_trial_is_played_in_the_shadow_with_what_it_did(
    drive: Run, client: Client, tmp_path: Path
) -> None:
    lines = ["age,shop,arm,sale"]
    lines += [
        f"{20 + i},{'ab'[i % 2]},{('none', 'mail')[i * i % 3 % 2]},{i % 2}" for i in range(40)
    ]
    trial = tmp_path / "trial.csv"
    trial.write_text("\n".join(lines))
    ran = drive("--data", trial, *COLUMNS, *FAST)
    assert ran.status == 0, ran
    assert "would be spent" in ran.out
    campaign = driven(client, ran)
    assert (campaign.mode, campaign.decisions, campaign.pending) == ("shadow", 40, 0)
    assert campaign.features == ("age", "shop")
    rows = {row["age"]: row for row in log_of(client, campaign, tmp_path)}
    for line in lines[1:]:
        age, _, arm, sale = line.split(",")
        row = rows[float(age)]
        assert row["treatment"] == ("control" if arm == "none" else "mail")
        assert row["outcome"] == float(sale)


def test_the_features_of_a_trial_are_declared_as_they_are_in_the_file(
    drive: Run, client: Client, tmp_path: Path
) -> None:
    lines = ["age,shop,since,arm,sale"]
    for i in range(40):
        age, shop, arm = ("" if i % 5 == 0 else 20 + i), "ab"[i % 2], ("none", "mail")[i % 3 % 2]
        lines.append(f"{age},{shop},2030-01-{1 + i % 28:02},{arm},{i % 2}")
    trial = tmp_path / "trial.csv"
    trial.write_text("\n".join(lines))
    given = ("--data", trial, *COLUMNS, "--impute", "--rate", 0)
    campaign = driven(client, drive(*given, "--budget", 20))
    ran = drive(*given, "--campaign", campaign.id)
    assert ran.status == 0, ran
    kinds = [(each.name, each.kind) for each in campaign.encoding]
    assert kinds == [("age", "number"), ("shop", "category"), ("since", "date")]
    rows = log_of(client, campaign, tmp_path)
    users = [(row["age"], row["shop"], row["since"], row["outcome"]) for row in rows]
    wanted = [
        (float(age) if age else None, shop, since, float(sale))
        for age, shop, since, _, sale in (line.split(",") for line in lines[1:])
    ]
    assert sorted(users, key=str) == sorted(2 * wanted, key=str)


def test_the_log_of_the_service_is_evaluated_without_options(
    drive: Run,
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    campaign = driven(client, drive("--users", 60, *FAST))
    path = client.download_log(campaign, tmp_path / "log.parquet")
    for words in (["evaluate", str(path)], ["compare", "--seeds", "1:3", "--data", str(path)]):
        monkeypatch.setattr(sys, "argv", ["bccb", *words, "--policy", "treat-all"])
        with pytest.raises(SystemExit) as stopped:
            main()
        printed = capsys.readouterr()
        assert not stopped.value.code, printed.err
        assert "log.parquet: 60 users" in printed.out


def test_a_campaign_that_exists_is_driven_if_the_users_fit(
    drive: Run, client: Client, tmp_path: Path
) -> None:
    names = load_model().names
    two = client.create_campaign(
        "two", budget=20, features=names, treatments=["mail", "call"], users=100
    )
    ran = drive("--campaign", two.id, "--users", 30, "--rate", 0)
    assert (ran.status, driven(client, ran).decisions) == (0, 30)
    other = client.create_campaign(
        "other", budget=20, features=["age"], treatments=["mail"], users=100
    )
    ran = drive("--campaign", other.id, "--users", 30)
    assert ran.status == 2
    assert f"the features of campaign {other.id} is ('age',), but must be 'f0', 'f1'" in ran.notes
    write_log(simulate(50, seed=1), tmp_path / "trial.parquet")
    ran = drive("--campaign", two.id, "--data", tmp_path / "trial.parquet")
    assert f"the mode of campaign {two.id} is 'live', but must be a shadow one" in ran.notes
    ran = drive("--campaign", "nothing", "--users", 30)
    assert "the service answered 404" in ran.notes


def test_a_refusal_ends_it_after_the_table(drive: Run, client: Client) -> None:
    paused = client.create_campaign(
        "paused", budget=20, features=load_model().names, treatments=["mail"], users=100
    )
    client.pause(paused)
    ran = drive("--campaign", paused.id, "--users", 30)
    assert ran.status == 2
    assert "users 0 in" in ran.out
    assert "error: the service answered 409:" in ran.notes


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for another process")
def test_ctrl_c_stops_it_and_settles_what_was_decided(url: str, client: Client) -> None:
    before = {campaign.id for campaign in client.campaigns()}

    def new() -> list[Campaign]:
        return [each for each in client.campaigns() if each.id not in before]

    endless = ("--users", 100_000, "--rate", 200, "--delay", 600)
    with subprocess.Popen(
        [*PROGRAM, "drive", "--url", url, *map(str, endless)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"COLUMNS": "120"},
    ) as process:
        try:
            until(lambda: any(each.pending > 300 for each in new()), START_SECONDS)
            process.send_signal(signal.SIGINT)
            out, notes = process.communicate(timeout=START_SECONDS)
        finally:
            process.kill()  # if it has not ended by itself
    assert process.returncode == 0, notes
    assert ", then stopped" in out
    assert "Traceback" not in notes
    campaign = client.campaign(new()[0])
    assert campaign.decisions > 300
    assert campaign.outcome_window_seconds == 3_000
    arms = client.report(campaign).arms
    assert campaign.decisions - campaign.pending == sum(arm.conversions for arm in arms) > 0


def test_with_a_delay_conversions_alone_are_reported(drive: Run, client: Client) -> None:
    ran = drive("--users", 400, *FAST, "--batch", 20, "--delay", 0.2, "--window", 60)
    assert ran.status == 0, ran
    campaign = driven(client, ran)
    assert campaign.outcome_window_seconds == 60
    arms = client.report(campaign).arms
    assert campaign.decisions - campaign.pending == sum(arm.conversions for arm in arms) > 0
    assert f"without a report {campaign.pending}, whose window has not ended" in ran.out
    ran = drive("--users", 20, *FAST, "--delay", 0.01)
    assert "window: none given with --window, so 1 s, 5 delays" in ran.notes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--url", "http://127.0.0.1:1"], "no service at http://127.0.0.1:1: start one with `bccb"),
        (["--batch", "1001"], "--batch is 1001, but must be from 1 to 1,000"),
        (["--concurrency", "0"], "--concurrency is 0, but must be from 1 to 100"),
        (["--rate", "-1"], "--rate is -1.0, but must be from 0"),
        (["--delay", "nan"], "--delay is nan, but must be from 0"),
        (["--delay", "-1"], "--delay is -1.0, but must be from 0"),
        (["--delay", "inf"], "--delay is inf, but must be from 0"),
        (["--window", "0"], "--window is 0, but must be from 1"),
        (["--campaign", "c", "--window", "60"], "--campaign is 'c', but must be given without"),
        (["--users", "0"], "--users is 0, but must be from 1"),
        (["--campaign", "c", "--amounts"], "given without --budget, --policy, --window and --amou"),
        (["--amounts", "--data", "x.csv"], "--amounts is True, but must be used on simulated"),
        (["--campaign", "c", "--policy", "bccb"], "--campaign is 'c', but must be given without"),
        (["--treatment", "a", "--control", "b", "--outcome", "c"], "--data is None, but must be"),
        (["--policy", "bcb"], "the service answered 422: .*'bcb'"),
    ],
)
def test_what_cannot_be_driven_is_one_line(drive: Run, arguments: list[str], message: str) -> None:
    ran = drive(*arguments)
    assert ran.status == 2
    assert re.search(message, ran.notes), ran.notes


def test_a_log_of_decisions_is_not_played(drive: Run, tmp_path: Path) -> None:
    log = simulate(50, seed=1)
    object.__setattr__(log, "probabilities", np.full(50, 0.5))
    write_log(log, tmp_path / "decisions.parquet")
    ran = drive("--data", tmp_path / "decisions.parquet")
    assert "the probabilities of the log is 'given', but must be left out" in ran.notes


class Recorder:
    """In place of a client: when each decision and each outcome came."""

    def __init__(self, most: int = 10**9) -> None:
        self.decided: list[tuple[float, str]] = []
        self.reported: list[tuple[float, str]] = []
        self.most = most

    def decide_many(self, campaign: Any, users: list[User]) -> tuple[DecisionAnswer, ...]:
        if len(self.decided) >= self.most:
            raise ServiceError(409, "about:blank", "enough")
        now = time.monotonic()
        self.decided += [(now, user.decision_id) for user in users]
        return tuple(
            DecisionAnswer(user.decision_id, None, 0.5, 0.0, Decimal(0), act=True) for user in users
        )

    def report_outcomes(self, campaign: Any, outcomes: list[Outcome]) -> None:
        now = time.monotonic()
        self.reported += [(now, outcome.decision_id) for outcome in outcomes]


def play(recorder: Recorder, plan: Plan, rate: float = 1.0) -> Drive:
    """Drive users of whom this share converts, in the order in which they come."""
    world = simulate_world(plan.users, seed=1)
    draws = np.arange(plan.users) / plan.users
    world = replace(world, rates=np.full_like(world.rates, rate), draws=draws)
    traffic = SimulatedTraffic(world, load_model().names, ("offer",))
    drive = Drive(cast("Any", recorder), cast("Any", "c1"), traffic, plan)
    drive.run()
    return drive


def test_users_come_at_the_rate_and_conversions_after_their_delays() -> None:
    began, recorder = time.monotonic(), Recorder()
    plan = Plan(users=30, rate=100.0, concurrency=4, delay=0.3, seed=1)
    drive = play(recorder, plan)
    totals = drive.totals
    assert totals.decided == len(recorder.decided) == len(recorder.reported) == 30
    assert max(moment for moment, _ in recorder.decided) - began >= 0.28
    asked = {name: moment for moment, name in recorder.decided}
    for moment, name in recorder.reported:
        row = int(name.rpartition("-")[2])
        assert moment - asked[name] >= min(drive.delays[row], plan.ending)
    assert 0.15 < drive.delays.mean() < 0.6
    assert totals.problem is None
    assert not totals.interrupted


def test_zeros_are_reported_at_once_without_a_delay_and_never_with_one() -> None:
    recorder, late = Recorder(), Recorder()
    play(recorder, Plan(users=40, rate=0.0), rate=0.25)
    assert len(recorder.reported) == 40
    play(late, Plan(users=40, rate=0.0, delay=0.01), rate=0.25)
    rows = {int(name.rpartition("-")[2]) for _, name in late.reported}
    assert rows == set(range(10))


def test_a_shadow_hears_of_zeros_after_a_delay_too() -> None:
    recorder, plan = Recorder(), Plan(users=40, rate=0.0, delay=0.01)
    log = simulate(40, seed=1)
    assert log.outcomes.min() == 0.0
    Drive(cast("Any", recorder), cast("Any", "c1"), LoggedTraffic(log), plan).run()
    assert len(recorder.reported) == 40


def test_it_ends_by_itself_though_a_conversion_is_due_much_later() -> None:
    recorder, plan = Recorder(), Plan(users=20, rate=0.0, delay=0.1)
    world = simulate_world(20, seed=1)
    world = replace(world, rates=np.ones_like(world.rates))
    traffic = SimulatedTraffic(world, load_model().names, ("offer",))
    drive = Drive(cast("Any", recorder), cast("Any", "c1"), traffic, plan)
    drive.delays[7] = 1e6
    began = time.monotonic()
    drive.run()
    assert plan.ending <= time.monotonic() - began < 30
    assert len(recorder.reported) == 20


def test_what_was_decided_before_a_refusal_gets_its_outcome_at_once() -> None:
    recorder = Recorder(most=20)
    began = time.monotonic()
    totals = play(recorder, Plan(users=100, rate=0.0, concurrency=1, batch=5, delay=600)).totals
    assert time.monotonic() - began < 60
    assert isinstance(totals.problem, ServiceError)
    assert totals.decided == 20
    assert {name for _, name in recorder.reported} == {name for _, name in recorder.decided}
