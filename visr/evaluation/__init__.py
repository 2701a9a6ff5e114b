"""Exact fractions of optimal on the grid, and the paper's two-phase protocol."""
