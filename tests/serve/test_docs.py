"""docs/service.md cannot go stale: every call in it is made, and everything there is is in it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from processes import serving

from bccb.serve.metrics import Metrics

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", DOCUMENT, flags=re.M | re.S)
ADDRESS = "http://127.0.0.1:8000"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("documented") / "bccb.sqlite") as server:
        yield server.address


def holds(answer: Any, result: Any) -> bool:
    """Whether all that the document tells of an answer is so; ids are made up anew each time."""
    if isinstance(answer, dict):
        return all(key == "id" or holds(value, result[key]) for key, value in answer.items())
    if isinstance(answer, list):
        return len(answer) == len(result) and all(map(holds, answer, result))
    return bool(answer == result)


def test_every_call_with_curl_is_answered_as_the_document_says(url: str, tmp_path: Path) -> None:
    campaign, answer, calls = "", "", 0
    for kind, text in BLOCKS:
        if kind == "sh":
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", text.replace(ADDRESS, url)],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                env={"PATH": "/usr/bin:/bin", "ID": campaign},
                timeout=60,
                check=True,
            )
            answer = done.stdout.replace("}{", "}\n{").strip().split("\n")[-1]
            calls += text.count("curl")
        elif kind == "json":
            result = json.loads(answer)
            assert holds(json.loads(text), result), (
                f"{text}\nis documented, but the answer is\n{answer}"
            )
            campaign = campaign or result["id"]
    assert calls >= 18
    assert (tmp_path / "log.parquet").stat().st_size > 1_000


def test_the_python_examples_run(url: str) -> None:
    examples = [text for kind, text in BLOCKS if kind == "python"]
    assert len(examples) == 2
    for code in examples:
        exec(compile(code.replace(ADDRESS, url), "docs/service.md", "exec"), {})


def test_every_route_is_documented(url: str) -> None:
    paths = httpx.get(f"{url}/openapi.json").json()["paths"]
    spoken = DOCUMENT.replace("$ID", "{campaign_id}")
    spoken = re.sub(r"order-\d", "{decision_id}", spoken)
    missing = [path for path in paths if f"{ADDRESS}{path}" not in spoken]
    assert len(paths) > 12
    assert not missing


def test_every_problem_and_every_metric_is_documented() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "src/bccb/serve").glob("*.py"))
    kinds = set(re.findall(r'(?:conflict\(|ProblemError\(\s*\d+, )"([a-z-]+)"', sources))
    kinds |= {f"campaign-{status}" for status in ("paused", "closed")}
    assert len(kinds) > 15
    assert not {kind for kind in kinds if f"`{kind}`" not in DOCUMENT}
    text = Metrics().text().decode()
    names = set(re.findall(r"^# TYPE (\w+) (?:counter|histogram)", text, flags=re.M))
    assert len(names) >= 5
    assert not {name for name in names if f"`{name}`" not in DOCUMENT}
