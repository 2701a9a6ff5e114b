"""Other people's agents, from Stable-Baselines3, in our games under our count of steps."""
