"""Opening campaigns, their money, and pausing, resuming and closing them."""

from __future__ import annotations

from typing import Any

import pytest

from serve.service import TERMS, Service, refused, user


def test_the_same_request_opens_one_campaign(service: Service) -> None:
    body = {"name": "spring", **TERMS}
    first, again = service.post("", body), service.post("", body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert [each["name"] for each in service.get("").json()["campaigns"]] == ["spring"]


def test_the_same_request_is_known_again_after_the_campaign_has_ended(service: Service) -> None:
    body = {"name": "spring", **TERMS, "horizon": {"ends_at": "2027-01-15T09:00:00Z"}}
    first = service.done("", body)
    service.clock.advance(7_200)
    again = service.post("", body)
    assert again.status_code == 200
    assert again.json()["id"] == first["id"]


def test_without_a_seed_a_campaign_draws_one_and_keeps_it(service: Service) -> None:
    body = {"name": "spring", **TERMS, "seed": None}
    first = service.done("", body)
    service.restart()
    assert service.done("", body)["seed"] == first["seed"] == service.campaign(first["id"])["seed"]


def test_a_name_that_is_taken_is_refused(service: Service) -> None:
    service.open(name="spring")
    response = service.post("", {"name": "spring", **TERMS, "budget": "7.00"})
    assert "'spring'" in refused(response, 409, "name", "name-taken")


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("name", {"name": ""}),
    ("name", {"name": "a\nb"}),
    ("name", {"name": "n" * 101}),
    ("budget", {"budget": "0"}),
    ("budget", {"budget": "0.0000009"}),
    ("budget", {"budget": "9000000000.000001"}),
    ("budget", {"budget": "-1"}),
    ("budget", {"budget": 100}),
    ("budget", {"budget": "1e3"}),
    ("horizon", {"horizon": None}),
    ("horizon.users", {"horizon": {}}),
    ("horizon.users", {"horizon": {"users": 0}}),
    ("horizon.users", {"horizon": {"users": 1.5}}),
    ("horizon.users", {"horizon": {"users": 10, "ends_at": "2030-01-01T00:00:00Z"}}),
    ("horizon.ends_at", {"horizon": {"ends_at": "2027-01-15T08:00:00Z"}}),  # now
    ("horizon.ends_at", {"horizon": {"ends_at": "2030-01-01T00:00:00"}}),
    ("horizon.ends_at", {"horizon": {"ends_at": "9999-12-31T23:59:59-23:00"}}),
    ("horizon.ends_at", {"horizon": {"ends_at": "0001-01-01T00:00:00+23:00"}}),
    (
        "horizon.expected_users",
        {"horizon": {"ends_at": "2030-01-01T00:00:00Z", "expected_users": 0}},
    ),
    ("features", {"features": ["status"]}),
    ("features", {"features": ["cost"]}),
    ("features.0", {"features": [7]}),
    ("treatments", {"treatments": []}),
    ("treatments", {"treatments": ["control"]}),
    ("policy", {"policy": {"name": "no-such-policy"}}),
    ("policy", {"policy": {"name": "oracle"}}),
    ("policy", {"policy": {"name": "offline-uplift"}}),
    ("policy", {"policy": {"name": "hybrid"}}),
    ("policy", {"policy": {"name": "bccb", "params": {"eta": -1}}}),
    ("policy", {"policy": {"name": "bccb", "params": {"budget": 5.0}}}),
    ("policy", {"policy": {"name": "bccb", "params": {"name": 5.0}}}),
    ("policy.params.eta", {"policy": {"name": "bccb", "params": {"eta": "much"}}}),
    ("outcome_window_seconds", {"outcome_window_seconds": 0}),
    ("seed", {"seed": -1}),
    ("mode", {"mode": "dry"}),
    ("learned_from", {"learned_from": "c-nobody"}),
    ("colour", {"colour": "red"}),
]


@pytest.mark.parametrize(("field", "changes"), WRONG)
def test_a_refused_campaign_tells_its_field(
    service: Service, field: str, changes: dict[str, Any]
) -> None:
    response = service.post("", {"name": "spring", **TERMS, **changes})
    message = refused(response, 422, field, "invalid-field")
    assert field == "policy" or field in message
    assert service.get("").json() == {"campaigns": []}
    assert service.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": "-5"}, "budget is '-5', but must be above 0"),
        (
            {"policy": "pooled-bayse"},
            'policy is \'pooled-bayse\', but must be an object, such as {"name": "pooled-trees"}',
        ),
        (
            {"policy": {"name": "pooled-bayse"}},
            "policy.name is 'pooled-bayse', but must be one of 'thompson', 'budgeted-thompson', "
            "'hte-greedy', 'uplifting-bandit', 'bccb', 'cheapest-first', 'response-first', "
            "'treat-all', 'pooled-bayes', 'pooled-trees'; did you mean 'pooled-bayes'?",
        ),
        ({"horizon": 1000}, 'horizon is 1000, but must be an object, such as {"users": 10000}'),
    ],
)
def test_a_refusal_says_what_to_send(
    service: Service, changes: dict[str, Any], message: str
) -> None:
    response = service.post("", {"name": "spring", **TERMS, **changes})
    assert response.json()["detail"] == message


@pytest.mark.parametrize("field", ["features", "treatments"])
def test_names_that_are_there_twice_are_refused(service: Service, field: str) -> None:
    response = service.post("", {"name": "spring", **TERMS, field: ["a", "a"]})
    assert refused(response, 422, field) == f"{field} is 'a', but must be named once"


@pytest.mark.parametrize("missing", ["name", "budget", "horizon", "features", "treatments"])
def test_a_missing_field_is_reported(service: Service, missing: str) -> None:
    body = {"name": "spring", **TERMS}
    del body[missing]
    assert "missing" in refused(service.post("", body), 422, missing)


@pytest.mark.parametrize("budget", ["0.000001", "999999999.999999", "9000000000"])
def test_any_allowed_budget_is_kept_to_the_micro(service: Service, budget: str) -> None:
    campaign = service.open(budget=budget)["id"]
    service.decide(campaign, "d", cost="0.000001")
    before = service.campaign(campaign)
    service.restart()
    assert service.campaign(campaign) == before
    whole, _, part = budget.partition(".")
    assert before["budget"] == f"{whole}.{part or '00'}"
    assert service.get("/readyz").status_code == 200


def test_budgets_round_down(service: Service) -> None:
    campaign = service.open(budget="1.0000019")["id"]
    assert service.campaign(campaign)["budget"] == "1.000001"
    assert service.done(f"{campaign}/budget", {"add": "0.0000029"})["budget"] == "1.000003"


def test_added_money_can_be_spent(service: Service) -> None:
    campaign = service.open(budget="1.00")["id"]
    assert service.decide(campaign, "a")["treatment"] == "email"
    assert service.decide(campaign, "b")["treatment"] is None
    service.done(f"{campaign}/budget", {"add": "2.50"})
    assert service.decide(campaign, "c")["treatment"] == "email"
    assert service.money(campaign) == ("0.00", "2.00", "1.50")


def test_a_repeated_request_adds_money_once(service: Service) -> None:
    campaign = service.open()["id"]
    for _ in range(3):
        assert service.done(f"{campaign}/budget", {"add": "5", "request_id": "r"})["budget"] == (
            "105.00"
        )
    other = service.post(f"{campaign}/budget", {"add": "6", "request_id": "r"})
    assert "5.00" in refused(other, 409, "request_id", "id-taken")
    service.done(f"{campaign}/budget", {"add": "1"})
    assert service.done(f"{campaign}/budget", {"add": "1"})["budget"] == "107.00"


@pytest.mark.parametrize("add", ["0", "0.0000009", "8999999900.000001", "-1", "x"])
def test_money_that_cannot_be_added_is_refused(service: Service, add: str) -> None:
    campaign = service.open()["id"]
    refused(service.post(f"{campaign}/budget", {"add": add}), 422, "add")
    assert service.campaign(campaign)["budget"] == "100.00"


def test_paused_campaigns_treat_nobody_but_still_take_outcomes(service: Service) -> None:
    campaign = service.open()["id"]
    answer = service.decide(campaign, "a")
    assert service.done(f"{campaign}/pause")["status"] == "paused"
    assert service.done(f"{campaign}/pause")["status"] == "paused"
    refused(service.post(f"{campaign}/decisions", user("b")), 409, kind="campaign-paused")
    assert service.decide(campaign, "a") == answer  # a retry is still safe
    mixed = service.post(f"{campaign}/decisions", [user("a"), user("b")])
    refused(mixed, 409, kind="campaign-paused")
    assert service.campaign(campaign)["decisions"] == 1
    assert service.outcome(campaign, "a", 1).json()["status"] == "recorded"
    assert service.done(f"{campaign}/resume")["status"] == "running"
    assert service.decide(campaign, "b")["treatment"] == "email"


def test_closing_is_for_good(service: Service) -> None:
    campaign = service.open()["id"]
    service.decide(campaign, "a")
    for _ in range(2):
        assert service.done(f"{campaign}/close")["status"] == "closed"
    service.restart()
    for path, body in (
        ("resume", None),
        ("pause", None),
        ("budget", {"add": "1"}),
        ("decisions", user("b")),
    ):
        refused(service.post(f"{campaign}/{path}", body), 409, kind="campaign-closed")
    assert service.outcome(campaign, "a", 1).json()["status"] == "recorded"


def test_an_unknown_campaign_is_reported(service: Service) -> None:
    for path in ("", "/report", "/log"):
        assert "'c-nobody'" in refused(service.get(f"c-nobody{path}"), 404)
    for path, body in (
        ("pause", None),
        ("budget", {"add": "1"}),
        ("decisions", user("a")),
        ("decisions/a/cancel", None),
        ("decisions/a/settle", {"cost": "1"}),
        ("outcomes", [{"decision_id": "a", "value": 1}]),
    ):
        assert "'c-nobody'" in refused(service.post(f"c-nobody/{path}", body), 404)


def test_the_newest_campaign_stands_first(service: Service) -> None:
    made = [service.open()["id"] for _ in range(3)]
    assert [each["id"] for each in service.get("").json()["campaigns"]] == made[::-1]


# Learning from another campaign


def test_a_campaign_that_learned_from_a_shadow_decides_like_a_warm_one(service: Service) -> None:
    terms = {"policy": {"name": "thompson"}, "horizon": {"users": 1_000}}
    shadow = service.open(mode="shadow", **terms)["id"]
    users = [user(f"u{i}") for i in range(200)]
    service.done(f"{shadow}/decisions", users)
    items = [  # treating is what converts
        {"decision_id": f"u{i}", "value": i % 2, "action": "email" if i % 2 else None}
        for i in range(200)
    ]
    service.done(f"{shadow}/outcomes", items)
    warm = service.open(learned_from=shadow, name="warm", seed=2, **terms)["id"]
    cold = service.open(name="cold", seed=2, **terms)["id"]
    treated = {
        id_: sum(service.decide(id_, f"w{i}")["treatment"] is not None for i in range(20))
        for id_ in (warm, cold)
    }
    assert treated[warm] == 20 > treated[cold]
    assert service.campaign(warm)["learned_from"] == shadow
    before = [service.decide(warm, f"w{i}") for i in range(20)]
    service.restart()  # and comes up from its own journal
    assert [service.decide(warm, f"w{i}") for i in range(20)] == before


@pytest.mark.parametrize(
    "changes",
    [{"features": ["size"]}, {"treatments": ["call"]}, {"policy": {"name": "cheapest-first"}}],
)
def test_only_a_campaign_of_the_same_make_can_be_learned_from(
    service: Service, changes: dict[str, Any]
) -> None:
    first = service.open(policy={"name": "thompson"})["id"]
    body = {"name": "x", **TERMS, "policy": {"name": "thompson"}, "learned_from": first, **changes}
    refused(service.post("", body), 422, "learned_from")
