from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from uuid import uuid4

import numba
import pytest

import bccb
from bccb.fingerprint import Part, fingerprint
from bccb.kernels.jit import bind, cache_folder, jit, wrapping

PACKAGE = Path(bccb.__file__).parent
SETTINGS = cast("Any", numba.config)


def twice(x: float) -> float:
    return 2.0 * x


@jit
def one_more(x: float) -> float:
    return x + 1.0


@jit
def one_less(x: float) -> float:
    return x - 1.0


def part(x: float) -> float:
    raise NotImplementedError


def template(x: float) -> float:
    return 10.0 * part(x)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package's sources that may be edited."""
    copy = tmp_path / "package" / "bccb"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def load() -> ModuleType:
    """``kernels/jit.py`` once more, as a module of its own."""
    spec = importlib.util.spec_from_file_location("copied_jit", PACKAGE / "kernels" / "jit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def folder() -> str:
    return str(load().cache_folder())


def test_cache_folder_is_named_by_the_fingerprint_of_the_kernels() -> None:
    assert Path(cache_folder()).name == f"kernels-{fingerprint(Part.KERNELS)[:16]}"


def test_cache_folder_lies_where_bccb_cache_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BCCB_CACHE", str(tmp_path / "here"))
    assert Path(folder()).parent == tmp_path / "here"
    monkeypatch.delenv("BCCB_CACHE")
    assert Path(folder()).parent.name == "bccb"


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="XDG is for other systems")
def test_users_cache_folder_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BCCB_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Path(folder()).parent == tmp_path / "bccb"


def test_kernels_give_what_their_python_form_gives() -> None:
    assert jit(twice)(21.0) == twice(21.0) == 42.0


def test_every_module_with_kernels_is_tested_in_plain_python_too() -> None:
    """``make plain`` names their tests."""
    root = PACKAGE.parents[1]
    if not (root / "Makefile").exists():
        pytest.skip("not in a checkout")
    shown = subprocess.check_output(["make", "-n", "plain"], cwd=root, text=True)
    listed = [root / word for word in shown.split() if word.startswith("tests/")]
    for source in PACKAGE.rglob("*.py"):
        if "\n@jit\n" in source.read_text():
            path = source.relative_to(PACKAGE)
            test = root / "tests" / path.with_name(f"test_{path.name}")
            assert any(test.is_relative_to(each) for each in listed), path


@pytest.mark.compiled
def test_users_own_numba_folder_stays_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = str(tmp_path / "theirs")
    monkeypatch.setattr(SETTINGS, "CACHE_DIR", theirs)
    kernel = cast("Any", jit(twice))
    assert theirs == SETTINGS.CACHE_DIR
    assert kernel.stats.cache_path.startswith(cache_folder())
    other: Any = numba.njit(cache=True)(twice)
    assert other.stats.cache_path.startswith(theirs)


@pytest.mark.compiled
def test_users_own_numba_folder_stays_theirs_when_compiling_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = str(tmp_path / "theirs")
    monkeypatch.setattr(SETTINGS, "CACHE_DIR", theirs)
    with pytest.raises(TypeError, match="not a function"):
        jit(cast("Any", "not a function"))
    assert theirs == SETTINGS.CACHE_DIR


@pytest.mark.compiled
def test_unwritable_cache_folder_means_no_cache_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numba would fall back to ``__pycache__``, where an edit elsewhere goes unnoticed."""
    blocked = tmp_path / "a file"
    blocked.write_text("no folder can be made below this")
    monkeypatch.setenv("BCCB_CACHE", str(blocked / "cache"))
    kernel = load().jit(twice)
    assert kernel(21.0) == 42.0
    assert kernel.stats.cache_path is None


def test_bound_copies_of_one_template_keep_their_own_kernels() -> None:
    more = bind(template, "more-cost-aware", {"part": one_more})
    less = bind(template, "less-cost-aware", {"part": one_less})
    assert (more(1.0), less(1.0), more(2.0), less(2.0)) == (20.0, 0.0, 30.0, 10.0)
    with pytest.raises(NotImplementedError):
        template(1.0)


def test_bind_binds_what_was_compiled_already() -> None:
    more = bind(jit(template), "more", {"part": one_more})
    assert more(1.0) == 20.0


def test_bound_copies_can_be_bound_into_others() -> None:
    for name, kernel, expected in (("one", one_more, 200.0), ("other", one_less, 0.0)):
        inner = bind(template, f"inner-{name}", {"part": kernel})
        assert bind(template, f"outer-{name}", {"part": inner})(1.0) == expected


SCRIPT = """
import json
from bccb.fingerprint import Part, fingerprint
from bccb.kernels.jit import bind, jit

@jit
def one_more(x):
    return x + 1.0

@jit
def one_less(x):
    return x - 1.0

part = one_more
SCALE = 1.0

def template(x):
    return SCALE * part(x)

results = {}
for name, kernels in (
    ("more", {"part": one_more}),
    ("less", {"part": one_less}),
    ("tenfold", {"part": one_less, "SCALE": 10.0}),
):
    bound = bind(template, name, kernels)
    results[name] = bound(5.0), sum(bound.stats.cache_hits.values()), bound.stats.cache_path
print(json.dumps(results))
"""


@pytest.mark.compiled
def test_processes_that_share_a_cache_do_not_mix_compositions_up(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "BCCB_CACHE": str(tmp_path / "cache")}
    for hits in (0, 1):  # the second process finds the first one's code
        printed = subprocess.check_output([sys.executable, str(script)], env=environment)
        result = json.loads(printed)
        assert [result[name][0] for name in ("more", "less", "tenfold")] == [6.0, 4.0, 40.0]
        assert [result[name][1] for name in result] == [hits] * 3
        for _, _, path in result.values():
            assert Path(path).is_relative_to(tmp_path / "cache")


@pytest.mark.compiled
def test_edit_in_another_file_is_never_answered_by_stale_code(
    package: Path, tmp_path: Path
) -> None:
    """The file of ``predict`` stays as it is; the one that it calls into changes."""
    program = (
        "import numpy as np\n"
        "from bccb.estimators.constant import predict, State\n"
        "effect = np.zeros(1)\n"
        "predict(State(3.0), np.zeros(1), effect, np.zeros(1))\n"
        "print(effect[0])\n"
    )
    environment = {
        **os.environ,
        "BCCB_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": str(package.parent),
    }
    command = [sys.executable, "-c", program]
    assert float(subprocess.check_output(command, env=environment)) == 3.0
    linalg = package / "kernels" / "linalg.py"
    source = linalg.read_text()
    assert "a[j] = value" in source
    linalg.write_text(source.replace("a[j] = value", "a[j] = value + 1.0"))
    assert float(subprocess.check_output(command, env=environment)) == 4.0


def test_wrapping_hushes_overflow_in_plain_python_and_costs_nothing_compiled() -> None:
    wrapped = wrapping(twice)
    assert (wrapped is twice) == (not SETTINGS.DISABLE_JIT)
    assert wrapped(2.0) == 4.0


def results_of_script(folder: Path) -> dict[str, float]:
    """What the bound kernels return in a process whose script and cache are in this folder."""
    environment = {**os.environ, "BCCB_CACHE": str(folder / "cache")}
    printed = subprocess.check_output([sys.executable, folder / "script.py"], env=environment)
    return {name: result for name, (result, _, _) in json.loads(printed).items()}


@pytest.fixture(scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A script, and the cache that its first run has written."""
    folder = tmp_path_factory.mktemp("cached")
    (folder / "script.py").write_text(SCRIPT)
    results_of_script(folder)
    return folder


@pytest.mark.compiled
@pytest.mark.parametrize("harm", ["empty", "cut", "zeroed"])
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_damaged_cache_is_compiled_anew(
    harm: str, suffix: str, cached: Path, tmp_path: Path
) -> None:
    shutil.copytree(cached, tmp_path, dirs_exist_ok=True, copy_function=shutil.copy2)
    files = list(tmp_path.rglob(f"*{suffix}"))
    assert len(files) >= 3
    for file in files:
        kept = file.read_bytes()
        half = len(kept) // 2
        file.write_bytes({"empty": b"", "cut": kept[:half], "zeroed": bytes(len(kept))}[harm])
    assert results_of_script(tmp_path) == {"more": 6.0, "less": 4.0, "tenfold": 40.0}


@pytest.mark.compiled
def test_two_processes_that_compile_for_different_types_do_not_mix_their_code_up() -> None:
    """One process is between the two writes of an entry, its index and its code, for the other's.

    With Numba's own file names both entries are number 1, and the integers run the floats' code.
    """

    def same(x: float) -> float:
        return x

    same.__qualname__ = f"same_{uuid4().hex}"  # nobody has compiled it yet
    floats, integers, later = (cast("Any", jit(same)) for _ in range(3))
    waiting: list[tuple[Any, ...]] = []
    files = floats._cache._cache_file, integers._cache._cache_file
    save_floats, index = files[0]._save_data, files[1]._load_index
    files[0]._save_data = lambda *entry: waiting.append(entry)

    def index_before_the_floats() -> Any:
        result = index()
        if not waiting:
            floats(1.5)
        return result

    integers._cache.load_overload = lambda *_: None
    files[1]._load_index = index_before_the_floats
    assert type(integers(1)) is int
    save_floats(*waiting[0])
    assert type(later(1)) is int
    assert sum(later.stats.cache_hits.values()) == 1
