"""Reinforcement learning on a reward, started from psi . w."""
