"""The figures that the paper published, to stand beside ours.

Source: A. Pillai, Budget-Constrained Causal Bandits: Bridging Uplift Modeling and Sequential
Decision-Making (2026), tables 1 to 5. Column names are those of our own tables.
"""

from __future__ import annotations

from typing import Any, TypeAlias

_METHODS = ("thompson", "budgeted-thompson", "hte-greedy", "uplifting-bandit", "bccb")
_ONLINE = {  # budget: mean and deviation of each method
    1_000.0: ((4.2, 1.7), (4.2, 1.7), (4.8, 2.7), (5.1, 1.5), (12.2, 6.0)),
    2_000.0: ((8.6, 2.8), (8.4, 3.2), (8.2, 7.0), (9.8, 2.5), (24.5, 9.0)),
    3_000.0: ((12.8, 3.8), (12.0, 3.8), (10.1, 7.2), (14.3, 2.7), (33.8, 8.6)),
    5_000.0: ((19.9, 5.3), (20.8, 3.8), (13.3, 10.3), (23.4, 4.4), (45.6, 10.0)),
    8_000.0: ((31.4, 5.9), (33.5, 3.2), (15.0, 13.1), (35.7, 4.9), (63.5, 13.7)),
}
_OFFLINE = {  # n: offline's mean and deviation; ours is 49.4 and 16.2 throughout
    500: (4.7, 15.9),
    1_000: (7.0, 20.9),
    2_000: (39.0, 58.7),
    3_000: (45.8, 55.6),
    5_000: (46.9, 42.7),
    7_500: (71.1, 53.6),
    10_000: (76.6, 39.5),
    15_000: (85.0, 42.1),
    25_000: (95.7, 37.8),
    50_000: (107.0, 37.8),
}
_SWEEPS = {  # parameter: mean at each value
    "eta": {0.001: 22.5, 0.005: 23.3, 0.01: 23.7, 0.05: 34.9, 0.1: 43.9},
    "threshold": {1e-4: 22.6, 5e-4: 30.9, 1e-3: 43.9, 5e-3: 26.2, 1e-2: 17.4},
    "least_pace": {0.01: 43.9, 0.05: 43.9, 0.1: 43.9, 0.2: 44.0, 0.5: 40.2},
    "prior_effect": {0.0: 43.7, 0.001: 51.4, 0.002: 43.9, 0.005: 31.8, 0.01: 26.4},
    "warm_up": {10.0: 44.0, 25.0: 44.0, 50.0: 43.9, 100.0: 43.5, 200.0: 43.8},
}
_SAMPLES = {  # method: matched, its deviation, proposed and realised share
    "thompson": (7_666.0, 822.0, 0.529, 0.851),
    "budgeted-thompson": (20_241.0, 128.0, 0.076, 0.319),
    "hte-greedy": (17_162.0, 1_585.0, 0.032, 0.150),
    "bccb": (25_384.0, 1_321.0, 0.149, 0.498),
}
_STABILITY = {2_000: 3.62, 5_000: 2.64, 7_500: 3.31, 10_000: 2.43, 50_000: 2.34}

Rows: TypeAlias = list[dict[str, Any]]

ONLINE: Rows = [
    {"budget": budget, "policy": name, "mean": mean, "deviation": deviation}
    for budget, row in _ONLINE.items()
    for name, (mean, deviation) in zip(_METHODS, row, strict=True)
]
CROSSOVER: Rows = [
    {"n": n, "offline_mean": mean, "offline_deviation": deviation}
    for n, (mean, deviation) in _OFFLINE.items()
]
SENSITIVITY: Rows = [
    {"parameter": parameter, "value": value, "mean": mean}
    for parameter, row in _SWEEPS.items()
    for value, mean in row.items()
]
DIAGNOSTICS: Rows = [
    {"policy": name, "mean": mean, "deviation": spread, "proposed": p, "realised": r}
    for name, (mean, spread, p, r) in _SAMPLES.items()
]
STABILITY: Rows = [
    {"n": n, "offline": _OFFLINE[n][1], "ours": 16.2, "ratio": ratio}
    for n, ratio in _STABILITY.items()
]
