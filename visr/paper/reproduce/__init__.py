"""The paper's experiments as a plan of jobs, and a ledger on disk from which a stopped plan continues."""
