"""The memory hierarchy.

A roof for each level that operands pass through. The product has small tiles, and the L2 cache limits it.
"""

import roofline as rl

small = rl.Tiling(block_m=64, block_n=64, warp_m=32, warp_n=32)
ax = rl.plot.hierarchy(rl.memory_hierarchy(4096, 4096, 4096, "a100-sxm-80gb", tiling=small))
