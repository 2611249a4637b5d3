"""What a token costs at partial load.

A fleet costs the same at any load, so tokens cost more at low utilization.
"""

import roofline as rl

load = rl.Workload(prompt_tokens=1500, output_tokens=300)
prices = {"h100-sxm": 2.50, "l4": 0.80}
plan = rl.plan("llama-3.1-8b", [*prices], load, slo=rl.SLO(tpot_s=0.05), prices=prices)
ax = rl.plot.cost(rl.fleet(plan, requests_per_s=10))
