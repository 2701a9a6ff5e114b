"""Everything that reproduces the paper: baselines, plans, the report over many runs."""
