"""All techniques at once.

Gains of prefill, decode and throughput; open markers are of what the deployment has already.
"""

import roofline as rl

serve = rl.Deployment("llama-3.1-8b", "h100-sxm")
ax = rl.plot.techniques(
    rl.technique_table(serve, rl.Workload(prompt_tokens=2000, output_tokens=256, batch=8), time="roofline_s")
)
