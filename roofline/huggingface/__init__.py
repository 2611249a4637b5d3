"""Models from Hugging Face: read a ``config.json``, with rules per family for what the file does not state."""

from __future__ import annotations

from .checkpoint import is_checkpoint, is_hub_id, read_checkpoint, read_hub
from .reader import from_config

__all__ = ["from_config", "is_checkpoint", "is_hub_id", "read_checkpoint", "read_hub"]
