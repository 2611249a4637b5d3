"""Serving: latency and throughput of a deployment.  All higher-level features use this one model of serving.

Terms:

==============  ====================================================================================================
batch           sequences that start together.  `roofline.generate` describes one batch from its first prompt token to
                its last output token, and its ``ttft_s``, ``tpot_s`` and ``total_s`` are the batch's
step, pass      one forward pass.  `roofline.prefill` is the pass over all prompts of a batch, `roofline.decode` one
                step of the running batch; their times are ``floor_s``, ``roofline_s`` and ``estimate_s``
request         a user's request in steady state, while ``batch`` requests are in the system and each that ends is
                replaced at once.  `Steady` describes requests, and with it ``plan``, ``fleet``, ``advise``, ``apply``
                and ``solve``: their ``ttft_s``, ``tpot_s``, ``total_s`` and ``gap_s`` are a request's
deployment      ``tokens_per_s`` and ``requests_per_s`` are those of the whole deployment, whatever it runs
==============  ====================================================================================================

``max_batch`` is everywhere the number of sequences that memory holds at once, as `roofline.memory` counts it.
"""
