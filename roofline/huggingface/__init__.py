"""Models from a Hugging Face ``config.json``: read from what it says, family by family where it does not say it."""

from __future__ import annotations

from .reader import from_config

__all__ = ["from_config"]
