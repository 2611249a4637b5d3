"""From one sequence to many.

A larger batch moves decode up along the memory roof, towards the ridge point.
"""

import numpy as np

import roofline as rl

serve = rl.Deployment("llama-3.1-8b", "h100-sxm")
load = rl.Workload(batch=2.0 ** np.arange(0, 9))
ax = rl.plot.roofline(serve.accelerator, rl.decode(serve, load, context_tokens=512))
