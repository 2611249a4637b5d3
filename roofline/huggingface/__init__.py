"""Models from Hugging Face: a ``config.json`` read from what it says, and family by family where it does not say it."""

from __future__ import annotations

from .checkpoint import is_checkpoint, is_hub_id, read_checkpoint, read_hub
from .reader import from_config

__all__ = ["from_config", "is_checkpoint", "is_hub_id", "read_checkpoint", "read_hub"]
