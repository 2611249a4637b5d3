"""Ridge points by year.

Peaks grow faster than bandwidth: it takes more FLOPs a byte to keep a newer chip busy.
"""

import roofline as rl

ax = rl.plot.by_year(rl.ridge_table(vendor="NVIDIA"), "bf16_ridge_flops_per_byte")
