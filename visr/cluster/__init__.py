"""Training on a Ray cluster: the only package that imports ray."""

import os

# Ray reads these when it is imported. It prints worker events on stdout, which is for results; the loop logs
# what matters on stderr.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
