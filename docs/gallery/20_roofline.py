"""A measured run under the roofline.

`roofline.headroom` compares a benchmark run with its bounds; on the plot it is a star. `roofline.measured.read`
reads the files of 22 tools; here the figures are typed in.
"""

import roofline as rl
from roofline.measured import Measurement

serve = rl.Deployment("llama-3.1-8b", "h100-sxm")
load = rl.Workload(prompt_tokens=1500, output_tokens=300, batch=16)
run = Measurement(
    "by hand", "notes", kind="batch", batch=16, prompt_tokens=1500, output_tokens=300,
    ttft_median_s=0.62, tpot_median_s=0.0095,
)  # fmt: skip
found = rl.headroom(serve, run)
ax = rl.plot.roofline(serve.accelerator, rl.prefill(serve, load), rl.decode(serve, load), found)
