"""Models: groups of equal layers, each a sequence of blocks, with exact counts."""

from __future__ import annotations

from .decoder import Model
from .encoder_stack import EncoderStack
from .layer import MOST_LAYERS, Layer
from .parameters import LookupTable, Parameters
from .tower import Product, Tower

__all__ = ["MOST_LAYERS", "EncoderStack", "Layer", "LookupTable", "Model", "Parameters", "Product", "Tower"]
