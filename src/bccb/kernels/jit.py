"""How bccb compiles: Numba, cached on disk under a fingerprint of everything that is compiled.

Numba's cache notices an edit of the file that a kernel is written in, but not of the files that
the kernel calls into. So the cache is in a folder named by a fingerprint of them all: any edit
gives a new folder, and stale code cannot run.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast
from uuid import uuid4

import numba
import numpy as np

from bccb.fingerprint import Part, fingerprint

P = ParamSpec("P")
R = TypeVar("R")

# Inlining saves a reference count for every array of a state at every call. NumPy's error model
# saves the test for zero before a division, which would prevent vectorised loops.
OPTIONS: dict[str, Any] = {"nogil": True, "forceinline": True, "error_model": "numpy"}
LOCK = threading.Lock()
MONTH = 30 * 86_400  # seconds


@cache
def cache_folder() -> str:
    """The folder of compiled kernels: ``$BCCB_CACHE``, or the user's cache folder."""
    root = Path(os.environ.get("BCCB_CACHE") or _user_cache())
    folder = root / f"kernels-{fingerprint(Part.KERNELS)[:16]}"
    if not folder.exists():
        _forget_old(root)
    return str(folder)


def _forget_old(root: Path) -> None:
    """Remove folders of other versions that were not written to for a month."""
    for folder in root.glob("kernels-*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > MONTH:
                shutil.rmtree(folder, ignore_errors=True)


def _user_cache() -> str:
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home
        home = Path(tempfile.gettempdir())
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(home / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(home / ".cache")
    return str(Path(base) / "bccb")


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` at its first call, without the interpreter lock, cached on disk."""
    settings: Any = numba.config
    if settings.DISABLE_JIT:
        return function
    with LOCK:
        shared = settings.CACHE_DIR
        settings.CACHE_DIR = cache_folder()  # a global setting, which Numba reads while decorating
        try:
            compiled = numba.njit(**OPTIONS, cache=True)(function)
            ours = compiled.stats.cache_path.startswith(cache_folder())
        except RuntimeError:
            ours = False
        finally:
            settings.CACHE_DIR = shared
    if ours:
        _name_apart(compiled._cache._cache_file)
        _make_optional(compiled._cache)
    else:  # not writable; in another folder Numba could find stale code, so use none
        compiled = numba.njit(**OPTIONS)(function)
    return cast("Callable[P, R]", compiled)


def _name_apart(store: Any) -> None:
    """Give every entry of the cache a file of its own.

    Numba names a file by the first number that is not in the kernel's index. Two processes that
    compile a kernel for different types at once would choose the same number, and later run the
    wrong code.
    """
    stem = store._index_name.removesuffix(".nbi")
    store._data_name = lambda number: f"{stem}.{uuid4().hex}.nbc"


def _make_optional(store: Any) -> None:
    """Treat a damaged entry of the cache as absent, and do without the cache on a full disk."""
    load, save = store.load_overload, store.save_overload

    def load_or_miss(signature: Any, target: Any) -> Any:
        try:
            return load(signature, target)
        except Exception:  # pickle and LLVM raise all kinds of errors for damaged bytes
            with suppress(Exception):
                store.flush()
            return None

    def save_or_skip(signature: Any, data: Any) -> None:
        with suppress(OSError):
            save(signature, data)

    store.load_overload, store.save_overload = load_or_miss, save_or_skip


def bind(template: Callable[P, R], name: str, kernels: dict[str, Any]) -> Callable[P, R]:
    """Compile a copy of ``template`` whose global names are replaced by ``kernels``.

    A closure would do the same, but Numba cannot find closures in its cache. It finds a copy by its
    qualified name, which therefore contains ``name``.
    """
    source = cast("FunctionType", getattr(template, "py_func", template))
    copy = FunctionType(source.__code__, {**source.__globals__, **kernels}, source.__name__)
    copy.__qualname__ = f"{source.__name__}_{name.replace('-', '_')}"
    copy.__module__ = source.__module__
    return jit(cast("Callable[P, R]", copy))


def wrapping(function: Callable[P, R]) -> Callable[P, R]:
    """Let 64-bit integers wrap around without warnings where ``function`` is not compiled."""
    if not cast("Any", numba.config).DISABLE_JIT:
        return function  # compiled integers wrap around anyway
    return np.errstate(over="ignore")(function)
