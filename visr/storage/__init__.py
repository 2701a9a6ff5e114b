"""Files of a run: written atomically, with checksums, by one process at a time; read without trust."""
