"""The files for containers: they cannot be run here, so what they say is checked instead."""

from __future__ import annotations

import json
import re
import secrets
import shlex
from pathlib import Path
from typing import Any

import yaml

import bccb
from bccb.serve.forwarding import MADE_ID, REQUEST_ID
from bccb.serve.learning import MOST_BYTES
from bccb.serve.server import HAND_OVER_SECONDS, SHUTDOWN_SECONDS
from bench.service.process import run_bccb

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"


def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return read


def dockerfile() -> list[tuple[str, str]]:
    """Its instructions, with their arguments."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.partition(" ")[2]) for line in lines]


def test_the_image_is_built_of_files_that_exist() -> None:
    instructions = dockerfile()
    assert instructions[0][0] == "FROM"
    known = {"FROM", "RUN", "ENV", "WORKDIR", "COPY", "USER", "EXPOSE", "HEALTHCHECK", "CMD"}
    assert {name for name, _ in instructions} <= known
    copied = [part for name, rest in instructions if name == "COPY" for part in rest.split()[:-1]]
    assert copied
    assert all((ROOT / each).exists() for each in copied)


def test_the_image_starts_the_service_with_options_that_it_has() -> None:
    (command,) = (json.loads(rest) for name, rest in dockerfile() if name == "CMD")
    words = shlex.split(command[-1].removeprefix("exec "))
    assert words[:2] == ["bccb", "serve"]
    help_text = run_bccb("serve", "--help").stdout
    options = [word for word in words if word.startswith("--")]
    assert options
    assert all(option in help_text for option in options)


def test_three_replicas_share_a_database_that_is_ready_before_them() -> None:
    services = compose()["services"]
    replica = services["bccb"]
    assert replica["deploy"]["replicas"] == 3
    assert replica["depends_on"]["database"]["condition"] == "service_healthy"
    assert "healthcheck" in services["database"]
    assert replica["environment"]["BCCB_LEDGER"].startswith("postgresql://bccb:")
    assert (DEPLOY / replica["build"]["context"] / replica["build"]["dockerfile"]).is_file()
    mounted = services["proxy"]["volumes"][0].partition(":")[0]
    assert (DEPLOY / mounted).is_file()


def test_a_replica_may_finish_before_it_is_killed() -> None:
    grace = int(compose()["services"]["bccb"]["stop_grace_period"].rstrip("s"))
    assert grace > HAND_OVER_SECONDS + SHUTDOWN_SECONDS


def test_the_proxy_takes_what_the_service_takes() -> None:
    text = (DEPLOY / "nginx.conf").read_text()
    assert text.count("{") == text.count("}")
    (megabytes,) = re.findall(r"client_max_body_size (\d+)m;", text)
    assert int(megabytes) * 2**20 >= MOST_BYTES
    assert "non_idempotent" in text


def test_what_the_proxy_sends_again_has_the_same_id() -> None:
    text = (DEPLOY / "nginx.conf").read_text()
    (variable,) = re.findall(rf"proxy_set_header {REQUEST_ID.decode()} (\S+);", text, re.IGNORECASE)
    assert variable == "$request_id"  # of 16 random bytes, in hexadecimal digits
    assert MADE_ID.fullmatch(secrets.token_hex(16).encode())


def test_the_image_has_the_kernels_of_campaigns_with_a_window() -> None:
    (code,) = (rest for name, rest in dockerfile() if name == "RUN" and ".warm()" in rest)
    source = shlex.split(code)[2].replace("import bccb; ", "").removesuffix(".warm()")
    assert eval(source, {"bccb": bccb}).pending is not None
