"""The store keeps what was added, whatever ends the process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bccb import InputError, StateError
from bccb.experiments.store import Store


def test_results_are_found_again_to_the_last_bit(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    store = Store(path)
    store.add([("a", {"x": 0.1 + 0.2}), ("b", {"x": 1e-300})])
    store.add([("c", {"x": 3})])
    store.close()
    again = Store(path)
    assert again.get("a") == {"x": 0.1 + 0.2}
    assert again.get("b") == {"x": 1e-300}
    assert again.get("c") == {"x": 3}
    assert again.get("d") is None


@given(cut=st.integers(0, 200))
def test_a_file_cut_anywhere_keeps_its_whole_lines_and_can_be_added_to(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "runs.jsonl"
    first = Store(path)
    first.add([(f"k{i}", {"x": i}) for i in range(5)])
    first.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    store = Store(path)
    left = whole[:cut].count(b"\n")
    assert [store.get(f"k{i}") is not None for i in range(5)] == [i < left for i in range(5)]
    store.add([("new", {"x": 9})])
    store.close()
    again = Store(path)
    assert again.get("new") == {"x": 9}
    again.close()
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_line_that_is_no_run_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    first = Store(path)
    first.add([("a", {})])
    first.close()
    path.write_bytes(path.read_bytes() + b"rubbish\n")
    with pytest.raises(InputError, match="line 2 of runs.jsonl is b'rubbish"):
        Store(path)


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="in a folder to write to"):
        Store(tmp_path / "absent" / "runs.jsonl").add([("a", {})])


def test_what_was_added_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    code = (
        "import itertools, sys; from pathlib import Path\n"
        "from bccb.experiments.store import Store\n"
        "store = Store(Path(sys.argv[1]))\n"
        "for i in itertools.count():\n"
        "    store.add([(str(i), {'x': i})]); print(i, flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    for line in child.stdout:
        if int(line) >= 20:
            os.kill(child.pid, signal.SIGKILL)
            break
    said = [int(line), *(int(rest) for rest in child.stdout if rest.endswith("\n"))]
    child.wait()
    child.stdout.close()
    store = Store(path)
    assert all(store.get(str(i)) == {"x": i} for i in range(max(said) + 1))


def test_a_second_writer_is_refused_until_the_first_is_done(tmp_path: Path) -> None:
    first = Store(tmp_path / "runs.jsonl")
    with pytest.raises(StateError, match="another process is writing to"):
        Store(tmp_path / "runs.jsonl")
    first.close()
    Store(tmp_path / "runs.jsonl").close()
