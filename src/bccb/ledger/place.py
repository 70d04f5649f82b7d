"""The place of a ledger: a path or URL, and how it is shown."""

from __future__ import annotations

import os
import re

SECRETS = (
    (re.compile(r"(://[^/?#@]*?):[^/?#]*@"), r"\1@"),
    (re.compile(r"([?&][a-z]*password=)[^&#]*", re.I), r"\1..."),
)


def shown_place(place: str | os.PathLike[str]) -> str:
    """A place as messages and logs may have it: without a password.

    >>> shown_place("postgresql://shop:s3cret@db.example/bccb?sslpassword=x")
    'postgresql://shop@db.example/bccb?sslpassword=...'
    """
    text = os.fspath(place)
    if "://" in text:
        for pattern, instead in SECRETS:
            text = pattern.sub(instead, text)
    return text
