"""Ridge points by year.

How many FLOPs a chip needs per byte to be limited by compute. Bandwidth has kept up with dense bf16 peaks since 2020.
"""

import roofline as rl

ax = rl.plot.by_year(rl.ridge_table(vendor="NVIDIA"), "bf16_ridge_flops_per_byte")
