"""What FP8 changes, part by part.

A bar for each operator whose time changes, from the step before to the step after.
"""

import roofline as rl

bf16 = rl.Deployment("llama-3.1-8b", "h100-sxm")
fp8 = rl.quantize(bf16, weights="fp8", activations="fp8")
load = rl.Workload(batch=16)
ax = rl.plot.waterfall(rl.compare(rl.decode(bf16, load), rl.decode(fp8, load)))
