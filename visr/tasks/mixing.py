"""An alias: snippets copied from older explorers import `visr.tasks.mixing`."""

from visr.storage.records.task import cosine, mix  # noqa: F401
