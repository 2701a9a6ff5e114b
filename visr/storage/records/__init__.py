"""Files that describe a run: each is written and read by the same dataclass."""
