"""Requests in the system.

How many requests wait, are in prefill, and generate, over a simulated run.
"""

import roofline as rl

serve = rl.Deployment("llama-3.1-8b", "h100-sxm", engine="vllm")
load = rl.Workload(prompt_tokens=1500, output_tokens=300)
ax = rl.plot.queue(rl.simulate(serve, load, requests_per_s=8.0, requests=100))
