"""Agents that learn from rewards alone: DQN and PPO of Stable-Baselines3, our Rainbow and our SimPLe."""
