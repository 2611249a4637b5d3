"""Encoder-decoders under load: sources are encoded once, and every step looks at them."""

import numpy as np
import pytest
from command_line import answer, text

import roofline as rl
from roofline.serving.scenario import Scenario
from roofline.serving.sources import SERVED
from roofline.serving.steady_state import steady_state
from roofline.serving.step_times import step_times

SPEECH, TEXT = rl.Workload(4, 200), rl.Workload(512, 100)
WHISPER_CROSS_BYTES = 32 * 2 * 1500 * 1280 * 2
"""Keys and values of 1,500 positions in 32 layers of width 1,280, in 16 bits."""


def server(model, engine=None, accelerator="h100-sxm"):
    return rl.Deployment(model, accelerator, engine=engine)


def spread(load):
    """A traffic around the lengths of a workload, whose requests do not move together."""
    rng = np.random.default_rng(0)
    prompts = np.round(rng.uniform(0.9, 1.1, 60) * load.prompt_tokens)
    return rl.Traffic(prompts, np.round(rng.uniform(0.3, 1.7, 60) * load.output_tokens), np.ones(60))


@pytest.mark.parametrize("time", ["floor_s", "roofline_s", "estimate_s"])
@pytest.mark.parametrize(
    ("model", "engine", "load"),
    [
        ("whisper-large-v3", "vllm", SPEECH),
        ("whisper-small", None, SPEECH),
        ("flan-t5-xl", "trtllm", TEXT),
        ("bart-large-cnn", None, rl.Workload(800, 60)),
    ],
)
def test_one_request_alone_is_its_generation(model, engine, load, time):
    serve = server(model, engine)
    alone = rl.generate(serve, load, time=time)
    run = rl.simulate(serve, load, concurrency=1, requests=2, time=time)
    form = rl.serve(serve, load, concurrency=1, time=time)
    extra_s = 0.0
    if time == "estimate_s":  # the handling of a request, and steps that are scheduled ahead
        one = serve.server
        extra_s = one.request_s + (one.request_token_s or 0.0) * load.prompt_tokens + one.first_token_steps * run.tpot_s
    for found in (run, form):
        assert float(found.tpot_s) == pytest.approx(float(alone.tpot_s), rel=2e-3)
        assert float(found.ttft_s) == pytest.approx(float(alone.ttft_s) + extra_s, rel=0.01)


@pytest.mark.parametrize("batch", [1, 64])
def test_every_step_of_whisper_reads_the_keys_and_values_of_its_windows(batch):
    """By hand: the decoder without its cross-attention's key and value matrices, its head, and 246 MB a sequence."""
    decoder = 32 * (6 * 1280**2 + 2 * 1280 * 5120) + 51_866 * 1280
    least_s = (2 * decoder + batch * WHISPER_CROSS_BYTES) / 3.35e12
    step_s = float(step_times(server("whisper-large-v3"), time="floor_s").decode_s(batch, 1.0))
    assert step_s == pytest.approx(least_s, rel=0.01)


def test_windows_share_a_pass_up_to_the_budget_of_the_encoder():
    """8,192 tokens hold five windows of 1,500 positions with their four tokens."""
    found = rl.simulate(server("whisper-large-v3", "vllm"), rl.Workload(4, 2), concurrency=20, requests=20)
    times, together = np.unique(np.round(found.requests.first, 9), return_counts=True)
    assert together.tolist() == [5, 5, 5, 5]
    each = rl.prefill(server("whisper-large-v3", "vllm"), rl.Workload(4, 2, batch=5)).estimate_s
    assert np.diff(times).mean() == pytest.approx(each, rel=0.05)


def test_admission_counts_the_source_and_the_answer():
    """An L4 holds far fewer windows than an answer of 200 tokens would let it: 246 of 279 MB are the window's."""
    serve = server("whisper-large-v3", "vllm", accelerator="l4")
    most = float(rl.memory(serve, SPEECH).max_batch)
    own = 32 * 2 * 204 * 1280 * 2
    assert most == pytest.approx(float(rl.memory(serve, SPEECH).pool_bytes) / (WHISPER_CROSS_BYTES + own), rel=0.02)
    run = rl.simulate(serve, SPEECH, concurrency=4 * int(most), requests=8 * int(most))
    assert run.limit == "memory"
    assert 0.8 * most <= run.running_batch <= 1.1 * most


@pytest.mark.parametrize(("model", "load"), [("whisper-large-v3", SPEECH), ("flan-t5-xl", TEXT)])
@pytest.mark.parametrize("engine", ["trtllm", None])
@pytest.mark.parametrize("clients", [4, 16, 64, 256])
def test_the_closed_form_agrees_with_the_simulation(model, load, engine, clients):
    run = rl.simulate(server(model, engine), spread(load), concurrency=clients, requests=30 * clients)
    form = rl.serve(server(model, engine), spread(load), concurrency=clients)
    assert float(form.tpot_s) == pytest.approx(run.tpot_s, rel=0.1)
    assert float(form.requests_per_s) == pytest.approx(run.requests_per_s, rel=0.07)


@pytest.mark.parametrize(("model", "load"), [("whisper-large-v3", SPEECH), ("flan-t5-xl", TEXT)])
def test_littles_law_holds(model, load):
    found = rl.simulate(server(model), spread(load), concurrency=32, requests=960)
    arrival, finish = np.array(found.requests.arrival), np.array(found.requests.finish)
    in_system = np.sum(finish - arrival) / (finish.max() - arrival.min())
    assert in_system == pytest.approx(found.requests_per_s * found.total_s, rel=0.02)


def test_longer_sources_take_longer_and_steps_with_them_too():
    shorter, longer = (
        rl.serve(server("flan-t5-xl"), rl.Workload(tokens, 100), concurrency=64) for tokens in (256, 512)
    )
    assert shorter.ttft_s < longer.ttft_s
    assert shorter.tpot_s < longer.tpot_s
    assert shorter.requests_per_s > longer.requests_per_s


@pytest.mark.parametrize(("model", "load"), [("whisper-large-v3", SPEECH), ("flan-t5-xl", TEXT)])
@pytest.mark.parametrize("time", ["roofline_s", "estimate_s"])
def test_plans_use_the_same_passes(model, load, time):
    """Alone as `generate`; at 64 requests within a fifth of the simulation, which mixes prompts and steps."""
    serve = server(model)
    one, many = (
        steady_state(Scenario(serve, rl.Workload(load.prompt_tokens, load.output_tokens, batch)), time=time)
        for batch in (1, 64)
    )
    alone = rl.generate(serve, load, time=time)
    assert float(one.ttft_s) == pytest.approx(float(alone.ttft_s), rel=1e-3)
    assert float(one.tpot_s) == pytest.approx(float(alone.tpot_s), rel=1e-3)
    run = rl.simulate(serve, spread(load), concurrency=64, requests=2000, time=time)
    assert float(many.requests_per_s) == pytest.approx(run.requests_per_s, rel=0.2)


def test_a_fleet_transcribes_at_a_rate():
    need = rl.fleet(rl.plan("whisper-large-v3", "h100-sxm", rl.Workload(4, 200)), requests_per_s=50)
    serve = need.plan.deployment()
    run = rl.simulate(serve, SPEECH, requests_per_s=50 / float(need.replicas[0]), requests=1000)
    assert run.requests_per_s == pytest.approx(50 / float(need.replicas[0]), rel=0.05)
    assert (
        text("fleet", "whisper-large-v3", "--hardware", "h100-sxm", "--rate", "50", "--prompt", "4").count("sglang")
        == 0
    )


@pytest.mark.parametrize(
    ("model", "engine", "said"),
    [
        ("flan-t5-xl", "vllm", "vllm does not serve flan-t5-xl, an encoder-decoder of text; engines that do: "),
        ("whisper-small", "llamacpp", "llamacpp does not serve whisper-small, an encoder-decoder of sound"),
        ("bart-large-cnn", rl.Engine("vllm", version="0.11.0"), "vllm 0.11.0 does not serve bart-large-cnn"),
    ],
)
def test_an_engine_without_encoder_decoders_says_which_have_them(model, engine, said):
    with pytest.raises(rl.RooflineError, match=said) as error:
        rl.serve(server(model, engine), TEXT, concurrency=4)
    assert "\n" not in str(error.value)


def test_the_first_engine_of_vllm_served_bart():
    serve = server("bart-large-cnn", rl.Engine("vllm", version="0.8.5"))
    assert rl.serve(serve, TEXT, concurrency=4).requests_per_s > 0


def test_engines_that_serve_them_exist():
    assert set(SERVED) - {"default"} <= set(rl.list_engines())


def test_a_source_is_encoded_whole_and_stays_where_it_is():
    serve = server("flan-t5-xl")
    with pytest.raises(rl.RooflineError, match="hit_rate must be 0: flan-t5-xl encodes whole sequences"):
        rl.serve(serve, TEXT, concurrency=4, hit_rate=0.5)
    with pytest.raises(rl.RooflineError, match="hit_rate must be 0"):
        rl.simulate(serve, TEXT, concurrency=4, requests=4, hit_rate=0.5)
    with pytest.raises(rl.RooflineError, match="the hand-over between separate pools does not support"):
        rl.serve_pools(TEXT, prefill=serve, decode=serve, concurrency=4)
    longer = rl.serve(serve, rl.Workload(12_000, 10), concurrency=1, time="roofline_s")  # beyond the budget of 8,192
    whole_s = rl.prefill(serve, rl.Workload(12_000, 10)).roofline_s
    assert float(longer.ttft_s) == pytest.approx(whole_s, rel=0.01)


def test_the_command_line_serves_windows_of_sound():
    options = ("--hardware", "h100-sxm", "--prompt", "4", "--output", "200", "--concurrency", "16")
    found = answer("serve", "whisper-large-v3", *options, "--audio", "30")
    own = rl.serve(server("whisper-large-v3"), rl.Workload(4, 200, audio_s=30.0), concurrency=16)
    assert found["requests_per_s"] == pytest.approx(float(own.requests_per_s))
