"""One published agent per file; `extensions` goes beyond the paper."""
