"""Images, sound and cached tokens have the same options in every command, and its JSON is the library's."""

import pytest
from command_line import answer, run, text

import roofline as rl

IMAGES = ("qwen2.5-vl-7b", "--hardware", "h100-sxm", "--engine", "vllm")
SOUND = ("qwen2-audio-7b", "--hardware", "h100-sxm", "--engine", "vllm")
PROMPT = ("--prompt", "3k", "--output", "100", "--images", "2", "--image-tokens", "500", "--cached", "200")
LOAD = rl.Workload(3000, 100, cached_tokens=200, images=2, image_tokens=500)
ASKED = {"prompt_tokens": 3000, "output_tokens": 100, "cached_tokens": 200, "images": 2, "image_tokens": 500}

OF_REQUESTS = ("serve", "simulate", "plan", "fleet", "advise", "fit", "plot timeline", "plot queue")
OF_PASSES = (
    "analyze",
    "explain",
    "what-if",
    "solve",
    "sensitivity",
    "techniques",
    "mode-switch",
    "visible",
    "headroom",
)
OPTIONS = ("--prompt", "--output", "--cached", "--images", "--image-tokens", "--audio")


@pytest.fixture(scope="module")
def sees():
    return rl.Deployment(rl.get_model("qwen2.5-vl-7b"), rl.get_accelerator("h100-sxm"), engine="vllm")


@pytest.fixture(scope="module")
def hears():
    return rl.Deployment(rl.get_model("qwen2-audio-7b"), rl.get_accelerator("h100-sxm"), engine="vllm")


def helps(command):
    """The help of each option of a workload."""
    lines = " " + " ".join(text(*command.split(), "--help").partition("\nWorkload:")[2].partition("\n\n")[0].split())
    return {name: lines.partition(f" {name} ")[2].partition(" --")[0].partition(" [default")[0] for name in OPTIONS}


@pytest.mark.parametrize("command", [*OF_REQUESTS, *OF_PASSES])
def test_the_options_of_a_workload_mean_the_same_everywhere(command):
    found = helps(command)
    assert all(found.values()), found
    assert found == helps("analyze")


@pytest.mark.parametrize("command", OF_REQUESTS)
@pytest.mark.parametrize("columns", [80, 40])
def test_help_keeps_to_the_width(command, columns):
    done = run(*command.split(), "--help", columns=columns)
    assert max(map(len, done.stdout.splitlines())) <= columns


def test_serve_with_images_is_the_library(sees):
    found = answer("serve", *IMAGES, *PROMPT, "--concurrency", "1,8")
    expected = rl.serve(sees, LOAD, concurrency=[1, 8]).to_dict()
    assert {name: found[name] for name in expected} == expected
    assert found["load"] == ASKED
    text_alone = rl.serve(sees, rl.Workload(3000, 100, cached_tokens=200), concurrency=[1, 8])
    assert (found["ttft_s"] > text_alone.ttft_s).all()


def test_simulate_with_sound_is_the_library(hears):
    run_of = ("--rate", "2", "--requests", "100", "--seed", "4")
    found = answer("simulate", *SOUND, "--prompt", "1k", "--output", "50", "--audio", "30s", *run_of)
    load = rl.Workload(1000, 50, audio_s=30.0)
    expected = rl.simulate(hears, load, requests_per_s=2, requests=100, seed=4)
    assert {name: found[name] for name in expected.to_dict()} == expected.to_dict()
    assert found["load"] == {"prompt_tokens": 1000, "output_tokens": 50, "audio_s": 30.0}
    assert expected.ttft_s > rl.simulate(hears, rl.Workload(1000, 50), requests_per_s=2, requests=100, seed=4).ttft_s


def test_plan_and_fleet_with_images_are_the_library():
    search = ("qwen2.5-vl-7b", "--hardware", "h100-sxm", "--gpus", "1", *PROMPT, "--tpot", "20ms")
    slo = rl.SLO(tpot_s=0.02)
    found = answer("plan", *search, "--no-pools")
    expected = rl.plan("qwen2.5-vl-7b", "h100-sxm", LOAD, slo=slo, accelerators=[1])
    assert found["best"] == expected.best.rows()[0]
    assert found["workload"] == ASKED
    queued = answer("fleet", *search, "--rate", "20", "--method", "closed-form")
    plan = rl.plan(
        "qwen2.5-vl-7b",
        "h100-sxm",
        LOAD,
        slo=slo,
        accelerators=[1],
        requests_per_s=20,
        method="closed-form",
    )
    assert queued["fleets"] == rl.fleet(plan).rows()
    shown = " ".join(text("plan", *search, "--no-pools").split())
    assert "prompt 3,000 after 200 cached with 2 images of 500 tokens, output 100 tokens" in shown


def test_advise_with_images_is_the_library(sees):
    found = answer("advise", *IMAGES, *PROMPT, "--loads", "1,16")
    expected = rl.advise(sees, LOAD, batches=(1, 16)).to_dict()
    assert {name: found[name] for name in expected} == expected
    assert found["workload"]["images"] == 2


def test_cached_tokens_of_a_workload_reach_the_advice(sees):
    """A mix of one bucket is that workload: decode steps read the cached tokens too."""
    before = rl.advise(sees, rl.Workload(3000, 100), batches=(16,))
    after = rl.advise(sees, rl.Workload(3000, 100, cached_tokens=20_000), batches=(16,))
    assert after.traffic.cached_tokens == 20_000
    assert after.traffic.longest_tokens == 23_100
    assert after.seen.tpot_s > before.seen.tpot_s


def test_fit_with_images_is_the_library(sees):
    found = answer("fit", *IMAGES, "--length", "4k", "--images", "200", "--image-tokens", "16")
    expected = rl.memory(sees, rl.Workload(3999, 1, images=200, image_tokens=16)).to_dict()
    assert {name: found[name] for name in expected} == expected


def test_images_may_go_with_a_file_of_lengths(sees, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("prompt_tokens,output_tokens\n2000,100\n4000,50\n")
    found = answer("serve", *IMAGES, "--traffic", log, "--images", "2", "--image-tokens", "500", "--concurrency", "4")
    traffic = rl.read_traffic(log)
    assert found["load"]["images"] == 2
    assert found["ttft_s"] > rl.serve(sees, traffic, concurrency=4).ttft_s
    advice = answer("advise", *IMAGES, "--traffic", log, "--images", "2", "--image-tokens", "500")
    assert advice["workload"]["source"] == "log.csv"


def test_the_tokens_of_an_image_are_noted():
    shown = " ".join(text("serve", *IMAGES, "--images", "1", "--image-tokens", "324", "--concurrency", "2").split())
    assert "prompt 2,000 with 1 image of 324 tokens, output 256 tokens" in shown
    assert "an image is 324 tokens of the language model" in shown


def test_drawings_of_a_server_take_images(tmp_path):
    picture = tmp_path / "queue.png"
    text("plot", "queue", *IMAGES, *PROMPT, "--rate", "2", "--requests", "20", "-o", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


TEXT = ("llama-3.1-8b", "--hardware", "h100-sxm")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("serve", *TEXT, "--images", "1", "--concurrency", "1"), "--images must be 0: llama-3.1-8b has no encoder of"),
        (
            ("simulate", *TEXT, "--audio", "3s", "--rate", "1"),
            "--audio must be 0: llama-3.1-8b has no encoder of sound",
        ),
        (("plan", *TEXT, "--images", "1"), "--images must be 0"),
        (("advise", *TEXT, "--images", "1"), "--images must be 0"),
        (("fit", *TEXT, "--images", "1"), "--images must be 0"),
        (("serve", *IMAGES, "--images", "two", "--concurrency", "1"), "--images must be an integer >= 0: 'two'"),
        (("serve", *TEXT, "--prompt", "1k,2k", "--concurrency", "1"), "--prompt takes one value here"),
        (("advise", *TEXT, "--prompt", "1k,2k"), "--prompt takes one value here"),
        (("plan", *TEXT, "--output", "1,2,3"), "--output takes one value here, and lists 3"),
        (
            ("serve", *TEXT, "--traffic", "x.csv", "--cached", "9", "--rate", "1"),
            "--traffic already says what requests",
        ),
        (("simulate", *IMAGES, "--trace", "x.csv", "--images", "1"), "--trace already says what requests consist of"),
        (("simulate", *TEXT, "--trace", "x.csv", "--traffic", "y.csv"), "give either --trace"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_loads_that_make_no_sense_are_one_line(args, says):
    done = run(*args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["serve", "simulate"])
def test_a_technique_under_load_points_to_the_commands_that_take_one(command):
    done = run(command, *TEXT, "--rate", "1", "--technique", "mtp")
    assert done.exit_code == 2
    assert "unknown option --technique: this command takes the deployment as given" in done.stderr
    assert "`roofline what-if --technique`" in done.stderr
    assert "--engine" not in done.stderr
