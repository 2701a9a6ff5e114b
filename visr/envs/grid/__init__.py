"""The grid world: an exact MDP, its vector environment and dynamic programming."""
