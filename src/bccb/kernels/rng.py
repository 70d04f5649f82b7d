r"""Random numbers that are a function of (seed, decision, lane): nothing is stored between calls.

A key is the seed, the decision's number and a lane, mixed. Draw j of a key is SplitMix64's output
function at ``key + j * GOLDEN``. So any decision can be recomputed alone, in any order, and
skipping a draw changes no other draw.

References: Steele, Lea and Flood (2014), Fast splittable pseudorandom number generators;
Marsaglia and Tsang (2000), The ziggurat method; Marsaglia and Tsang (2000), A simple method for
generating gamma variables.

>>> key = key_of(42, 7, 0)  # seed 42, decision 7, lane 0
>>> uniform(key, 0) == uniform(key_of(42, 7, 0), 0), uniform(key, 0) == uniform(key, 1)
(True, False)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bccb.kernels.jit import jit, wrapping
from bccb.types import Floats

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
S12, S27, S30, S31 = np.uint64(12), np.uint64(27), np.uint64(30), np.uint64(31)
LAYER_BITS, SIGN_BIT, ONE = np.uint64(0xFF), np.uint64(0x100), np.uint64(1)
TO_UNIT = 1.0 / (1 << 52)  # with 53 bits the added half would be rounded away, up to 1.0
TAIL = 3.6541528853610088  # where the ziggurat's lowest of 256 layers ends
LAYER_AREA = 0.00492867323399


def _ziggurat() -> tuple[Floats, Floats]:
    """The right edges of 256 layers of equal area under exp(-x^2/2), and the heights there."""
    x = np.zeros(257)
    x[0] = LAYER_AREA / math.exp(-0.5 * TAIL**2)
    x[1] = TAIL
    for layer in range(2, 256):
        height = LAYER_AREA / x[layer - 1] + math.exp(-0.5 * x[layer - 1] ** 2)
        x[layer] = math.sqrt(-2.0 * math.log(height))
    return x, np.exp(-0.5 * x**2)


EDGE, HEIGHT = _ziggurat()


@jit
@wrapping
def mix(z: Any) -> Any:
    """SplitMix64's output function: a bijection of 64 bits."""
    z = (z ^ (z >> S30)) * MIX_1
    z = (z ^ (z >> S27)) * MIX_2
    return z ^ (z >> S31)


@jit
@wrapping
def key_of(seed: int, number: int, lane: int) -> Any:
    """The key of one lane of one decision."""
    z = mix(np.uint64(seed) + GOLDEN)
    z = mix(z ^ (np.uint64(number) * GOLDEN))
    return mix(z + np.uint64(lane) * GOLDEN)


@jit
@wrapping
def uniform(key: Any, draw: int) -> float:
    """Draw number ``draw`` of ``key``, uniform within (0, 1): never 0, never 1."""
    z = mix(key + np.uint64(draw) * GOLDEN)
    return (float(z >> S12) + 0.5) * TO_UNIT


@jit
@wrapping
def normal(key: Any, draw: int) -> tuple[float, int]:
    """A standard normal, from draw number ``draw`` on, and the number of the next free draw."""
    while True:
        z = mix(key + np.uint64(draw) * GOLDEN)
        draw += 1
        layer = np.int64(z & LAYER_BITS)
        sign = 1.0 if (z & SIGN_BIT) != 0 else -1.0
        x = (float(z >> S12) + 0.5) * TO_UNIT * EDGE[layer]
        if x < EDGE[layer + 1]:
            return sign * x, draw
        if layer == 0:
            x, draw = _normal_tail(key, draw)
            return sign * x, draw
        y = HEIGHT[layer] + uniform(key, draw) * (HEIGHT[layer + 1] - HEIGHT[layer])
        draw += 1
        if y < math.exp(-0.5 * x * x):
            return sign * x, draw


@jit
def _normal_tail(key: Any, draw: int) -> tuple[float, int]:
    """A normal beyond TAIL (Marsaglia 1964)."""
    while True:
        x = -math.log(uniform(key, draw)) / TAIL
        y = -math.log(uniform(key, draw + 1))
        draw += 2
        if y + y > x * x:
            return TAIL + x, draw


@jit
def gamma(key: Any, draw: int, shape: float) -> tuple[float, int]:
    """Gamma(shape, 1) for shape > 0, from draw ``draw`` on, and the number of the next draw."""
    boost = 1.0
    if shape < 1.0:  # Gamma(a) = Gamma(a + 1) * U^(1/a)
        boost = uniform(key, draw) ** (1.0 / shape)
        draw += 1
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x, draw = normal(key, draw)
        root = 1.0 + c * x
        if root <= 0.0:
            continue
        v = root * root * root
        u = uniform(key, draw)
        draw += 1
        # For c x >= -1/2 the log of what u is compared with is at least -x^4 c^2 / 6.
        squeezed = root >= 0.5 and u < 1.0 - c * c / 6.0 * (x * x) * (x * x)
        if squeezed or math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return boost * d * v, draw


@jit
def beta(key: Any, a: float, b: float) -> float:
    """Beta(a, b) as a ratio of gammas."""
    x, draw = gamma(key, 0, a)
    y, _ = gamma(key, draw, b)
    return x / (x + y)
