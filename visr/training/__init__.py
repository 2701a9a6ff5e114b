"""Acting and learning on one machine."""
