"""Experiments: many replays, planned as data, run in parallel, stored as they finish."""
