"""What goes beyond the paper's agent; visr.py imports none of it."""
