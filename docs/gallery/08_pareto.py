"""Candidates of a plan.

All candidates that fit, the frontier of each accelerator, and the target as a dashed line.
"""

import roofline as rl

load = rl.Workload(prompt_tokens=1500, output_tokens=300)
plan = rl.plan("llama-3.1-8b", ["h100-sxm", "l4"], load, slo=rl.SLO(tpot_s=0.03))
ax = rl.plot.pareto(plan)
