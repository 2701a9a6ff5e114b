"""Speed, as ratios of things measured in turns in one process."""
