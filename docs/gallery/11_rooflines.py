"""Accelerators side by side.

Roofs of one format with their ridge points.
"""

import roofline as rl

ax = rl.plot.rooflines("h100-sxm", "h200-sxm", "mi300x", "l4")
