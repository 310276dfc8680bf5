"""Measures the performance budgets: `python -m bench`."""
