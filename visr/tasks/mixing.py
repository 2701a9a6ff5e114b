"""An alias: snippets copied from the explorer import `visr.tasks.mixing`."""

from visr.storage.records.task import cosine, mix  # noqa: F401
