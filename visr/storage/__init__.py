"""How anything reaches the disk and comes back: whole, sealed, and written by one at a time."""
