"""Rainbow (Hessel et al., 2018), our own: no maintained library that has it fits beside ours."""
