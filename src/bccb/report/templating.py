"""Templates: how whole documents are put together."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from bccb.errors import MissingExtraError

if TYPE_CHECKING:
    from jinja2 import Environment


def rendered(template: str, **given: Any) -> str:
    """A template of this package, filled in. In HTML all text is escaped."""
    return _environment().get_template(template).render(**given)


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise MissingExtraError("jinja2", "lab") from None
    return Environment(
        loader=PackageLoader("bccb.report"),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
