"""The three times over a batch.

Floor, roofline and estimate with its interval, and two measured points.
"""

import numpy as np

import roofline as rl

serve = rl.Deployment("llama-3.1-8b", "h100-sxm")
step = rl.decode(serve, rl.Workload(batch=np.arange(1, 129)), context_tokens=2048)
ax = rl.plot.curves(step, measured={1: 6.9e-3, 64: 9.8e-3})
