"""All techniques at once.

Speedups of prefill and decode, and gains in throughput. Open markers are techniques that the deployment already uses.
"""

import roofline as rl

serve = rl.Deployment("llama-3.1-8b", "h100-sxm")
load = rl.Workload(prompt_tokens=2000, output_tokens=256, batch=8)
ax = rl.plot.techniques(rl.technique_table(serve, load))
