"""Training beyond one machine: the only room that imports ray."""

import os

# Ray reads these when it is imported. It prints what happens to workers on stdout, where results go; what
# matters of it is said by the loop itself, on stderr.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
