"""Have everything compiled before anything is timed: kernels are kept for later processes."""

from __future__ import annotations

from pathlib import Path

from bccb.policies import DEFAULT
from bench.fuzzing.space import IN_MONEY, served_policies
from bench.service.process import Server

COMPILING = 900.0  # seconds for one policy, on a machine that is busy


def warm(folder: Path) -> None:
    """Use every policy once, in a service whose ledger nobody looks at."""
    folder.mkdir()
    server = Server(folder / "warm.sqlite")
    server.patience = COMPILING
    try:
        server.wait()
        source: str | None = None
        for name, spec in served_policies().items():
            request = {
                "name": name,
                "budget": "10",
                "horizon": {"users": 10},
                "features": ["age"],
                "treatments": ["mail", "call"],
                "policy": {"name": name},
            }
            if spec.after_history:
                request["learned_from"] = source or ""
            campaign = server.create(request)
            source = campaign if name == DEFAULT else source
            _use(server, f"/v1/campaigns/{campaign}")
            if name in IN_MONEY:
                amounts = {"name": f"{name} in money", "outcome": {"kind": "amount"}}
                _use(server, f"/v1/campaigns/{server.create({**request, **amounts})}")
    finally:
        server.kill()


def _use(server: Server, path: str) -> None:
    user = {"decision_id": "a", "features": {"age": 1}, "costs": {"mail": "1", "call": "2"}}
    server.call("POST", f"{path}/decisions", [user])
    server.call("POST", f"{path}/outcomes", [{"decision_id": "a", "value": 1}])
    server.call("POST", f"{path}/decisions/a/correct", {"value": 0})
    for look in ("report", "log", "log?format=parquet"):
        server.raw("GET", f"{path}/{look}")
