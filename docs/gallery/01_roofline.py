"""A model under the roofline.

Prefill and decode are open markers, their operators filled ones, with the share of the time as area.
"""

import roofline as rl

gpu = rl.get_accelerator("h100-sxm")
serve = rl.Deployment("llama-3.1-8b", gpu)
load = rl.Workload(prompt_tokens=2000, batch=32)
ax = rl.plot.roofline(gpu, rl.prefill(serve, load), rl.decode(serve, load))
