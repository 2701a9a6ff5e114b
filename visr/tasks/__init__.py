"""Old module names that snippets copied from the explorer still import."""
