"""Evaluation: replay on randomised logs, estimates and tests."""
