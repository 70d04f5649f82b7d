"""Encodings that a Parquet file keeps of its features, so that they are read as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bccb.data.formats import load_polars, suffix_of
from bccb.encoding import Encoding
from bccb.errors import InputError
from bccb.types import Floats

if TYPE_CHECKING:
    import polars as pl

KEY = "bccb.encoding"  # in the metadata of the file


def encoding_metadata(encoding: Encoding) -> dict[str, str]:
    """What a Parquet file keeps of how its features are encoded."""
    return {KEY: json.dumps(encoding.to_list())}


def stored_encoding(path: Path) -> Encoding | None:
    """The encoding that a file keeps, if it does."""
    if suffix_of(path) != ".parquet":
        return None
    stored = load_polars().read_parquet_metadata(path).get(KEY)
    try:
        return None if stored is None else Encoding.from_list(json.loads(stored))
    except (AttributeError, TypeError, ValueError):
        allowed = "as this version of bccb writes them"
        raise InputError(f"what {str(path)!r} says of its features", stored, allowed) from None


def encode_by(encoding: Encoding, frame: pl.DataFrame) -> Floats:
    """The matrix of features, which are taken out of the frame."""
    matrix, at = np.empty((frame.height, len(encoding.columns))), 0
    for feature in encoding.features:
        encoder, width = feature.encoder(), len(feature.columns)
        values = frame.drop_in_place(feature.name)
        known = {value: encoder(value) for value in values.unique().to_list()}
        matrix[:, at : at + width] = [known[value] for value in values.to_list()]
        at += width
    return matrix
