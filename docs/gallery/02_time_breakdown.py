"""Where the time goes.

Each operator's share of the roofline time, colored by what limits it.
"""

import roofline as rl

serve = rl.Deployment("llama-3.1-8b", "h100-sxm")
load = rl.Workload(prompt_tokens=2000, batch=32)
ax = rl.plot.time_breakdown(rl.prefill(serve, load), rl.decode(serve, load))
