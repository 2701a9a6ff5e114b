"""Training beyond one machine: the only room that imports ray."""
