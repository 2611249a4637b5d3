"""Time to first token under load.

What users see as more requests arrive. Above capacity the queue grows without bound.
"""

import numpy as np

import roofline as rl

serve = rl.Deployment("llama-3.1-8b", "h100-sxm", engine="vllm")
found = rl.serve(serve, rl.Workload(1500, 300), requests_per_s=np.geomspace(0.5, 40, 24), method="closed-form")
ax = rl.plot.curves(found, column="ttft_s")
