"""Pure functions: the sphere, n-step returns, epsilon-greedy actions, reward regression, seeds."""
