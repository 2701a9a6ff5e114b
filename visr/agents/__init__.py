"""One published agent a file, and the n-step rule they share."""
