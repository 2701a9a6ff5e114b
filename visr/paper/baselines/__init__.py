"""Agents that learn from rewards alone: DQN and PPO of Stable-Baselines3, and our Rainbow."""
