"""Traces: requests as they came, replayed; files that say what is wrong with which row."""

import json

import numpy as np
import pytest

import roofline as rl

ROWS = "arrival_s,prompt_tokens,output_tokens\n0.0,100,20\n1.5,200,30\n1.5,300,40\n4.0,50,1\n"


@pytest.fixture(scope="module")
def serve():
    return rl.Deployment("llama-3.1-8b", "h100-sxm", engine="vllm")


def written(folder, text, name="trace.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_trace_is_replayed_as_it_came(tmp_path, serve):
    trace = rl.read_trace(written(tmp_path, ROWS))
    assert len(trace) == 4
    assert trace.requests_per_s == pytest.approx(3 / 4)
    found = rl.simulate(serve, trace)
    np.testing.assert_array_equal(found.of_requests("sent_s"), [0, 1.5, 1.5, 4.0])
    np.testing.assert_array_equal(found.of_requests("output_tokens"), [20, 30, 40, 1])
    assert "arrivals of a trace" in found.assumptions[0]
    faster = rl.simulate(serve, trace.at_rate(7.5))
    np.testing.assert_allclose(faster.of_requests("sent_s"), [0, 0.15, 0.15, 0.4])


def test_a_trace_gives_its_lengths_to_a_closed_loop_and_to_a_closed_form(tmp_path, serve):
    trace = rl.read_trace(written(tmp_path, ROWS))
    looped = rl.simulate(serve, trace, concurrency=2, requests=8)
    np.testing.assert_array_equal(looped.of_requests("prompt_tokens"), [100, 200, 300, 50] * 2)
    assert rl.serve(serve, trace, concurrency=2).tokens_per_s > 0
    assert trace.traffic.mean_prompt_tokens == pytest.approx(162.5)


def test_dates_and_json_lines_and_other_names(tmp_path):
    lines = [
        {"timestamp": "2026-01-01T00:00:00", "input_len": 10, "completion_tokens": 5},
        {
            "timestamp": "2026-01-01T00:00:02.5",
            "usage": {"prompt_tokens": 7, "completion_tokens": 6, "cached_tokens": 3},
        },
    ]
    trace = rl.read_trace(written(tmp_path, "\n".join(map(json.dumps, lines)), "log.jsonl"))
    np.testing.assert_array_equal(trace.arrival_s, [0, 2.5])
    np.testing.assert_array_equal(trace.cached_tokens, [0, 3])


def test_the_burstiness_of_a_metronome_is_zero_and_that_of_poisson_arrivals_one():
    every = np.ones(20_000)
    regular = rl.Trace(np.arange(20_000.0), every, every, 0 * every)
    random = rl.Trace(np.cumsum(np.random.default_rng(0).exponential(1.0, 20_000)), every, every, 0 * every)
    assert regular.burstiness == pytest.approx(0)
    assert random.burstiness == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("arrival_s,prompt_tokens,output_tokens\n", "contains no requests"),
        ("prompt_tokens,output_tokens\n1,1\n", "row 1: no column arrival_s; there are prompt_tokens, output_tokens"),
        (ROWS.replace("200,30", ",30"), "row 2: prompt_tokens is missing"),
        (ROWS.replace("200,30", "200"), "row 2: output_tokens is missing"),
        (ROWS.replace("300,40", "300,0"), "row 3: output_tokens must be an integer >= 1: '0'"),
        (ROWS.replace("300,40", "many,40"), "row 3: prompt_tokens must be an integer >= 1: 'many'"),
        (ROWS.replace("4.0,50", "1.0,50"), "row 4: arrives 0.5 s before the row above it"),
        (ROWS.replace("4.0,50", "soon,50"), "row 4: arrival_s must be a time in seconds or a date: 'soon'"),
        ('{"time": 0, "prompt_tokens": 1, "output_tokens": 1}\n[1]', "row 2 must be an object, not list"),
        ('{"time": 0, "prompt_tokens": 1, "output_tokens": 1}\n{', "row 2 is not JSON"),
    ],
)
def test_what_is_wrong_with_a_trace_is_one_line_with_the_row(tmp_path, text, message):
    with pytest.raises(rl.SpecError, match=message) as error:
        rl.read_trace(written(tmp_path, text))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prompt_tokens,output_tokens\n5,5\n0,5\n", "row 2: prompt_tokens is 0"),
        ("prompt_tokens,output_tokens\n5,5\n5,\n", "row 2: output_tokens is missing"),
        ("prompt_tokens,output_tokens\n5,5\n5\n", "row 2: output_tokens is missing"),
        ('[{"prompt_tokens": 3, "output_tokens": 0}]', "row 1: output_tokens is 0"),
        ('{"input_lens": [5, 5], "output_lens": [5, 0]}', "request 2: output_tokens is 0"),
    ],
)
def test_what_is_wrong_with_a_traffic_file_names_the_row(tmp_path, text, message):
    with pytest.raises(rl.SpecError, match=message):
        rl.read_traffic(written(tmp_path, text))
