"""Mathematics on tensors: no parameters, no config, no environment."""
