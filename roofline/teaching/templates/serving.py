"""Serving: speculation, caches, chunks, stalls, pools."""

from __future__ import annotations

import math

from ...serving.scenario import expected_tokens
from ...units import plural
from ..drawing import Draw, template
from ..question import Question


@template("serving", 2)
def tokens_of_a_verification(d: Draw) -> Question:
    """(1 - a^(k + 1)) / (1 - a)."""
    acceptance, drafts = d.share(0.5, 0.9), d.whole(1, 8)
    answer = float(expected_tokens(acceptance, drafts))
    return d.ask(
        f"Speculative decoding drafts {plural(drafts, 'token')} per step. Each draft is accepted with "
        f"probability {acceptance:g} if those before it were. How many tokens does a step yield on average, including "
        "the one that the large model adds?",
        answer,
        "tokens",
        given={"acceptance": acceptance, "drafts": drafts},
        solution=[f"1 + a + ... + a^{drafts} = (1 - {acceptance:g}^{drafts + 1}) / (1 - {acceptance:g})"],
        mistakes={"independent": 1 + acceptance * drafts, "own token": answer - 1},
        tolerance=0.02,
    )


@template("serving", 3)
def gain_of_speculation(d: Draw) -> Question:
    """Tokens a step over what a step costs."""
    acceptance, drafts, share = d.share(0.5, 0.9), d.whole(2, 8), d.pick((0.02, 0.05, 0.1))
    tokens = float(expected_tokens(acceptance, drafts))
    answer = tokens / (1 + drafts * share)
    return d.ask(
        f"Speculative decoding drafts {drafts} tokens per step, each accepted with probability {acceptance:g} if "
        f"those before it were. Drafting a token takes {share:.0%} of a plain decode step, and verifying takes as "
        "long as a plain step. By what factor does decode get faster?",
        answer,
        "x",
        given={"acceptance": acceptance, "drafts": drafts, "share": share},
        solution=[
            f"tokens per step: (1 - {acceptance:g}^{drafts + 1}) / (1 - {acceptance:g}) = {tokens:.4g}",
            f"time of a step: 1 + {drafts} x {share:g} = {1 + drafts * share:.4g} plain steps; divide",
        ],
        mistakes={"free drafts": tokens, "independent": (1 + acceptance * drafts) / (1 + drafts * share)},
        tolerance=0.02,
    )


@template("serving", 1)
def prompt_after_a_cache_hit(d: Draw) -> Question:
    """What is found is not computed."""
    tokens, hit, micros = d.whole(1000, 16_000, 500), d.share(0.1, 0.9), d.whole(20, 200, 10)
    answer = tokens * (1 - hit) * micros / 1e3
    return d.ask(
        f"Prefill takes {micros} us per token. {hit:.0%} of a prompt of {tokens:,} tokens are in the prefix cache. "
        "How many ms does it take to compute the rest?",
        answer,
        "ms",
        given={"tokens": tokens, "hit": hit, "seconds": micros * 1e-6},
        solution=[f"{tokens:,} x (1 - {hit:g}) x {micros} us"],
        mistakes={"cached part": tokens * hit * micros / 1e3, "whole prompt": tokens * micros / 1e3},
        tolerance=0.02,
    )


@template("serving", 1)
def passes_of_a_chunked_prompt(d: Draw) -> Question:
    """Round up."""
    tokens, chunk = d.whole(1000, 32_000, 100), d.pick((256, 512, 1024, 2048, 4096))
    answer = math.ceil(tokens / chunk)
    return d.ask(
        f"Chunked prefill computes a prompt of {tokens:,} tokens in chunks of {chunk}. How many passes does it take?",
        answer,
        "passes",
        given={"tokens": tokens, "chunk": chunk},
        solution=[f"{tokens:,} / {chunk} = {tokens / chunk:.3g}, rounded up"],
        mistakes={"rounded down": math.floor(tokens / chunk)},
        tolerance=0.001,
    )


@template("serving", 2)
def rate_of_good_requests(d: Draw) -> Question:
    """Goodput: requests that hold both targets."""
    requests, late, slow, both = d.whole(5, 60), d.share(0.02, 0.2, 0.01), d.share(0.02, 0.2, 0.01), 0.01
    missed = late + slow - both
    answer = requests * (1 - missed)
    return d.ask(
        f"A deployment finishes {requests} requests per second. {late:.0%} of them miss the TTFT target and "
        f"{slow:.0%} miss the TPOT target; {both:.0%} miss both and are in both figures. What is the goodput, in "
        "requests per second?",
        answer,
        "requests/s",
        given={"rate": requests, "late": late, "slow": slow, "both": both},
        solution=[f"missed: {late:g} + {slow:g} - {both:g} = {missed:.3g}", f"{requests} x (1 - {missed:.3g})"],
        mistakes={"misses": requests * missed, "one target": requests * (1 - late)},
        tolerance=0.005,
    )


@template("serving", 1)
def requests_of_a_throughput(d: Draw) -> Question:
    """Output tokens a second over tokens of an answer."""
    tokens, prompt, output = d.whole(500, 20_000, 500), d.whole(200, 4000, 100), d.whole(50, 800, 50)
    answer = tokens / output
    return d.ask(
        f"A deployment generates {tokens:,} output tokens per second. Requests have {prompt:,} prompt tokens and "
        f"{output} output tokens. How many requests per second does it finish?",
        answer,
        "requests/s",
        given={"rate": tokens, "prompt": prompt, "output": output},
        solution=[f"{tokens:,} / {output}"],
        mistakes={"total tokens": tokens / (prompt + output)},
        tolerance=0.02,
    )


@template("serving", 2)
def longest_gap(d: Draw) -> Question:
    """A step and another request's prompt before it."""
    step, micros, tokens = d.whole(8, 60), d.whole(20, 150, 10), d.whole(500, 8000, 500)
    answer = step + tokens * micros / 1e3
    return d.ask(
        f"A decode step takes {step} ms. A prompt of {tokens:,} tokens is computed between two steps, at {micros} us "
        "per token, while the running sequences wait. How many ms lie between two of their tokens?",
        answer,
        "ms",
        given={"step": step / 1e3, "tokens": tokens, "seconds": micros * 1e-6},
        solution=[f"{tokens:,} x {micros} us = {tokens * micros / 1e3:.4g} ms, and the step"],
        mistakes={"no step": tokens * micros / 1e3, "no stall": float(step)},
        tolerance=0.005,
    )


@template("serving", 2)
def prompts_a_pool_can_take(d: Draw) -> Question:
    """One prompt after another."""
    tokens, micros, ways = d.whole(500, 8000, 500), d.whole(20, 150, 10), d.pick((1, 2, 4, 8))
    answer = ways / (tokens * micros * 1e-6)
    return d.ask(
        f"A prefill pool has {plural(ways, 'accelerator')}, each of which computes one prompt of "
        f"{tokens:,} tokens at a time, at {micros} us per token. How many requests per second can the pool take at "
        "most?",
        answer,
        "requests/s",
        given={"tokens": tokens, "seconds": micros * 1e-6, "accelerators": ways},
        solution=[f"{ways} / ({tokens:,} x {micros} us)"],
        mistakes={"per device": answer / ways, "inverse": 1 / answer},
        tolerance=0.02,
    )


@template("serving", 1)
def waste_of_padding(d: Draw) -> Question:
    """A static batch pads to the longest."""
    lengths = sorted(d.whole(50, 2000, 10) for _ in range(4))
    answer = 100 * (1 - sum(lengths) / (4 * lengths[-1]))
    return d.ask(
        f"A static batch pads prompts of {', '.join(map(str, lengths))} tokens to the longest. What percentage of the "
        "computed tokens is padding?",
        answer,
        "%",
        given={"lengths": tuple(lengths)},
        solution=[
            f"computed: 4 x {lengths[-1]:,} = {4 * lengths[-1]:,} tokens; in the prompts: {sum(lengths):,}",
            f"1 - {sum(lengths):,} / {4 * lengths[-1]:,}",
        ],
        mistakes={"complement": 100 - answer, "inverse": 100 * (4 * lengths[-1] / sum(lengths) - 1)},
        tolerance=0.02,
    )


@template("serving", 3)
def prefill_for_each_decode(d: Draw) -> Question:
    """Both pools busy."""
    prompt, step, output, batch = d.whole(50, 900, 10), d.whole(8, 60), d.whole(50, 500, 10), d.pick((8, 16, 32, 64))
    share = (output - 1) * step / batch
    answer = prompt / share
    return d.ask(
        f"The prefill of a request takes {prompt} ms of an accelerator; it then runs {output - 1} decode steps of "
        f"{step} ms in a batch of {batch}. How many prefill accelerators are needed for each decode accelerator, if "
        "both pools are fully used?",
        answer,
        "accelerators",
        given={"prefill": prompt / 1e3, "step": step / 1e3, "steps": output - 1, "batch": batch},
        solution=[
            f"decode takes {output - 1} x {step} / {batch} = {share:.4g} ms of an accelerator per request",
            f"{prompt} ms of prefill / {share:.4g} ms of decode",
        ],
        mistakes={"no batch": prompt / ((output - 1) * step), "inverse": share / prompt},
        tolerance=0.02,
    )


@template("serving", 3)
def steps_stretched_by_prompts(d: Draw) -> Question:
    """D / (1 - r T)."""
    prefill, tpot = d.whole(50, 300, 10), d.whole(8, 40)
    busy = d.share(0.1, 0.7)
    requests = float(f"{busy / (prefill / 1e3):.3g}")
    answer = tpot / (1 - requests * prefill / 1e3)
    return d.ask(
        f"{requests:g} prompts per second arrive, and each stops the running sequences for {prefill} ms. Undisturbed, "
        f"a decode step takes {tpot} ms. What is the mean TPOT with these stalls, in ms?",
        answer,
        "ms",
        given={"rate": requests, "prefill": prefill / 1e3, "step": tpot / 1e3},
        solution=[
            f"{requests:g} x {prefill} ms = {requests * prefill / 10:.3g} % of the time goes to prompts",
            f"{tpot} / (1 - {requests * prefill / 1e3:.3g})",
        ],
        mistakes={"stalls alone": tpot * (1 + requests * prefill / 1e3), "every step": float(tpot + prefill)},
        tolerance=0.02,
    )
