"""The paper's experiments as a plan of jobs, and a ledger on disk that survives being stopped anywhere."""
