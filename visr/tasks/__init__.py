"""The rewarded phase: a user's reward, what it is worth exactly, and the task it becomes."""
