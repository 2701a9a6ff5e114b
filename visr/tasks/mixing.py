"""An alias: snippets copied from the explorer import `visr.tasks.mixing`."""

from visr.inference.mixing import *  # noqa: F403
