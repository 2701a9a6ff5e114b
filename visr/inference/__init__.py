"""A reward becomes rewarded steps, then a task w with an account of how far to trust it."""
