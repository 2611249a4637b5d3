"""Bad input gets one line that says what, the value, and what would do."""

import dataclasses
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import roofline as rl
from roofline.specs.folders import spec_folders

GOOD = """\
name: tiny
sources: {paper: {title: A paper}}
hidden: 64
vocab: 1000
layers:
  - count: 2
    attention: {query_heads: 4, kv_heads: 2, head_dim: 16}
    mlp: {intermediate: 128}
"""


def message(error):
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("name", "near"), [("lama-3.1-70b", "llama-3.1-70b"), ("mixtral", "mixtral-8x7b"), ("qwen3-9b", "qwen3-8b")]
)
def test_an_unknown_model_is_told_the_nearest(name, near):
    with pytest.raises(rl.UnknownName) as error:
        rl.get_model(name)
    assert repr(name) in message(error)
    assert near in message(error)


def test_an_unknown_accelerator_is_told_the_nearest():
    with pytest.raises(rl.UnknownName, match=r"no accelerator named 'h100-sxn'; did you mean .*'h100-sxm'") as error:
        rl.get_accelerator("h100-sxn")
    assert isinstance(error.value, LookupError)
    assert isinstance(error.value, rl.RooflineError)


@pytest.mark.parametrize("field", ["batch", "prompt_tokens", "output_tokens"])
@pytest.mark.parametrize("value", [0, -1, 1.5, float("nan"), float("inf"), "three", None, True, [1, 0], [[1], [-2]]])
def test_counts_must_be_whole_and_positive(field, value):
    with pytest.raises(rl.InvalidInput, match=f"{field} must be an integer >= 1: ") as error:
        rl.Workload(**{field: value})
    assert isinstance(error.value, ValueError)
    message(error)


def test_a_bad_element_of_an_array_is_named():
    with pytest.raises(rl.InvalidInput, match="batch must be an integer >= 1: -7"):
        rl.Workload(batch=np.array([1, 2, -7]))


def test_shapes_that_do_not_broadcast(serve):
    with pytest.raises(rl.InvalidInput, match="must broadcast"):
        rl.Workload(batch=np.arange(1, 4), prompt_tokens=np.arange(1, 5))
    with pytest.raises(rl.InvalidInput, match="must broadcast"):
        rl.decode(serve, rl.Workload(batch=np.arange(1, 4)), context_tokens=np.arange(1, 5))


def test_context_beyond_the_model_is_a_note_not_an_error(serve):
    step = rl.decode(serve, rl.Workload(), context_tokens=200_000)
    assert step.floor_s > 0
    assert any("beyond the 131,072" in note for note in step.assumptions)
    assert not any("beyond" in note for note in rl.decode(serve, rl.Workload(), context_tokens=131_071).assumptions)


def test_negative_context(serve):
    with pytest.raises(rl.InvalidInput, match="context_tokens must be an integer >= 0: -1"):
        rl.decode(serve, rl.Workload(), context_tokens=-1)


def test_unknown_format():
    with pytest.raises(rl.UnknownName, match=r"no number format named 'fp9'; did you mean .*'fp8'"):
        rl.Precision(weights="fp9")


def test_activations_in_a_storage_format():
    with pytest.raises(rl.InvalidInput, match="activations can't be 'nf4'"):
        rl.Precision(activations="nf4")


def test_unknown_part():
    with pytest.raises(rl.UnknownName, match="no part of a model named 'lmhead'; did you mean 'lm_head'"):
        rl.Precision(exceptions={"lmhead": "fp8"})


def test_unknown_attention_algorithm(serve):
    with pytest.raises(rl.UnknownName, match="did you mean 'fused'"):
        serve.replace(attention="fuse")


@pytest.mark.parametrize("fraction", [0, -0.1, 1.1, float("nan")])
def test_memory_fraction(serve, fraction):
    with pytest.raises(rl.InvalidInput, match="memory_fraction"):
        serve.replace(memory_fraction=fraction)


def test_unknown_field_of_an_accelerator(h100):
    with pytest.raises(rl.UnknownName, match="did you mean 'memory_bytes_per_s'"):
        h100.replace(memory_bytes_per_sec=3e12)


def test_results_of_two_kinds_do_not_compare(serve):
    with pytest.raises(rl.InvalidInput, match="Phase and Memory"):
        rl.compare(rl.decode(serve, rl.Workload()), rl.memory(serve, rl.Workload()))


@pytest.mark.parametrize("size", [-1, float("nan"), "a"])
def test_matmul_sizes(size):
    with pytest.raises(rl.InvalidInput, match="k must be a finite number >= 0"):
        rl.matmul(1, size, 1)


def test_a_good_spec_loads(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(GOOD)
    assert rl.get_model(path).parameters.embedding == 64_000
    assert rl.get_model(str(path)) == rl.get_model(path)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("vocab: 1000", "vocabulary: 1000", "vocab is missing; vocabulary is not a known key: 1000"),
        ("hidden: 64", "hidden: -64", "hidden must be greater than or equal to 1: -64"),
        ("hidden: 64", "hidden: 6.4", "hidden must be a valid integer: 6.4"),
        ("hidden: 64", "hidden: '64'", "hidden must be a valid integer: '64'"),
        ("kv_heads: 2", "kv_heads: 3", "layers.0.attention: query_heads must be a multiple of kv_heads: 4 / 3"),
        ("kv_heads: 2, ", "", "layers.0.attention.kv_heads is missing"),
        ("head_dim: 16", "head_size: 16", "layers.0.attention.head_size is not a known key: 16"),
        ("mlp: {", "mpl: {", "layers.0.mpl: no kind of block named 'mpl'"),
        ("mlp: {intermediate: 128}", "mlp: 128", "layers.0.mlp must be a mapping of sizes, not 128"),
        ("count: 2", "count: 0", "layers.0.count must be greater than or equal to 1: 0"),
        ("name: tiny", "name: other", "name 'other' must match the file name: 'tiny'"),
        ("vocab: 1000", "vocab: 1000\nvocab: 2000", "key 'vocab' is given twice"),
        ("vocab: 1000", "vocab: &v 1000\nposition_rows: *v", "uses a YAML alias"),
        ("vocab: 1000", "vocab: [1000", "is not valid YAML"),
        ("vocab: 1000", "vocab: !!python/object/apply:os.system ['true']", "contains a YAML tag"),
        ("layers:", "layers: []\nx:", "layers "),
    ],
)
def test_a_faulty_spec_says_what_is_wrong(tmp_path, old, new, says):
    path = tmp_path / "tiny.yaml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(rl.SpecError) as error:
        rl.get_model(path)
    assert says in message(error)
    assert str(path) in message(error)


def test_every_fault_of_a_spec_is_named_at_once(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(GOOD.replace("hidden: 64", "hidden: 0").replace("vocab", "vocal"))
    with pytest.raises(rl.SpecError, match=r"hidden .*vocab is missing.*vocal is not a known key"):
        rl.get_model(path)


@pytest.mark.parametrize("get", [rl.get_model, rl.get_accelerator])
def test_files_that_are_no_specs(tmp_path, get):
    def refused(path, says):
        with pytest.raises(rl.SpecError) as error:
            get(path)
        assert says in message(error)

    refused(tmp_path / "missing.yaml", "can't be read")
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(bytes(range(256)) * 4)
    refused(binary, "is not a text file")
    deep = tmp_path / "deep.yaml"
    deep.write_text("a: " + "[" * 100 + "]" * 100)
    refused(deep, "levels deep")
    a_list = tmp_path / "list.yaml"
    a_list.write_text("- 1\n- 2\n")
    refused(a_list, "must contain a mapping, not list")
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    refused(empty, "must contain a mapping, not NoneType")
    large = tmp_path / "large.yaml"
    with large.open("wb") as file:
        file.truncate(100 * 2**20)
    refused(large, "has 104,857,600 bytes; a spec or config has at most")
    folder = tmp_path / "folder.yaml"
    folder.mkdir()
    refused(folder, "is a directory")


def test_an_unreadable_file(tmp_path, monkeypatch):
    path = tmp_path / "tiny.yaml"
    path.write_text(GOOD)

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    with pytest.raises(rl.SpecError, match=r"tiny.yaml can't be read: Permission denied"):
        rl.get_model(path)


def test_a_name_given_twice(tmp_path, monkeypatch):
    folder = tmp_path / "model_specs"
    folder.mkdir()
    (folder / "gpt-2.yaml").write_text(GOOD.replace("tiny", "gpt-2"))
    monkeypatch.setenv("ROOFLINE_SPECS", str(tmp_path))
    with pytest.raises(rl.SpecError, match=r"two specs are named 'gpt-2': .* and .*; rename one"):
        rl.list_models()


def test_a_folder_of_ones_own_is_found(tmp_path, monkeypatch):
    (tmp_path / "tiny.yaml").write_text(GOOD)
    monkeypatch.setenv("ROOFLINE_SPECS", os.fspath(tmp_path))
    assert "tiny" in rl.list_models()
    assert "tiny" not in rl.list_accelerators()
    assert rl.get_model("Tiny").hidden == 64


def test_specs_folder_that_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("ROOFLINE_SPECS", str(tmp_path / "nowhere"))
    with pytest.raises(rl.SpecError, match=r"ROOFLINE_SPECS names .*nowhere.*, which is not a directory"):
        rl.list_models()


@pytest.mark.parametrize("name", [3, None, 1.5, b"gpt-2"])
def test_a_name_must_be_a_word_or_a_path(name):
    with pytest.raises(rl.InvalidInput, match="must be a name or a path"):
        rl.get_accelerator(name)


# Files that take long or cannot be read, and figures of hardware that make no sense


def test_tens_of_thousands_of_keys_are_read_at_once(tmp_path):
    """A search for doubles in a list of all keys took 26 s for 90,000; the file itself is refused for its fields."""
    path = tmp_path / "many.yaml"
    path.write_text("\n".join(f"k{at}: 1" for at in range(30_000)))
    with pytest.raises(rl.SpecError):
        rl.get_accelerator(path)
    path.write_text("name: x\nyear: 1\nname: y\n")
    with pytest.raises(rl.SpecError, match="key 'name' is given twice"):
        rl.get_accelerator(path)


@pytest.mark.parametrize("value", ["9" * 5000, "2001-99-99", "1" + "0" * 4400])
def test_yaml_values_that_cannot_be_read_are_one_line(tmp_path, value):
    path = tmp_path / "odd.yaml"
    path.write_text(f"name: x\nyear: {value}\n")
    with pytest.raises(rl.SpecError, match="contains a value that can't be read") as caught:
        rl.get_accelerator(path)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 300 + len(str(path))


def test_json_numbers_of_thousands_of_digits_are_one_line(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama", "hidden_size": ' + "9" * 5000 + "}")
    with pytest.raises(rl.SpecError, match="contains a number that can't be read"):
        rl.get_model(path)


@pytest.mark.parametrize(
    ("row", "words"), [("h100-sxm,vllm", "row 2 has 2 values for 7 columns"), ("", "contains no timings")]
)
def test_short_rows_and_byte_order_marks_of_timings(tmp_path, row, words):
    from roofline.efficiency.timings import read_timings

    path = tmp_path / "timings.csv"
    header = "accelerator,engine,dtype,m,n,k,latency_s"
    path.write_bytes(b"\xef\xbb\xbf" + f"{header}\n{row}\n".encode())
    with pytest.raises(rl.SpecError, match=words):
        read_timings(path)


GOOD_TIMING = {"accelerator": "l40s", "engine": "vllm", "dtype": "bf16", "m": 64, "n": 64, "k": 64, "latency_s": 1e-5}


def timing(tmp_path, **changes):
    row = {**GOOD_TIMING, **changes}
    row = {name: value for name, value in row.items() if value is not None}
    path = tmp_path / "timings.csv"
    path.write_text(f"{','.join(row)}\n{','.join(map(str, row.values()))}\n")
    return path


@pytest.mark.parametrize("wrong", ["nan", "0", "-1", "inf", "", "1e400"])
def test_timings_without_a_time_are_one_line(tmp_path, wrong):
    from roofline.efficiency.timings import read_timings

    with pytest.raises(rl.SpecError, match="row 2: latency_s must be seconds above 0"):
        read_timings(timing(tmp_path, latency_s=wrong))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"m": "-4"}, "row 2: m must be from 0 to 1e[+]30: -4"),
        ({"m": "nan"}, "row 2: m must be from 0 to 1e[+]30: nan"),
        ({"m": "1e300"}, "row 2: m must be from 0"),
        ({"m": "x"}, "m must be a number: 'x'"),
        ({"dtype": "bf17"}, "no dtype named 'bf17'; did you mean 'bf16'"),
        ({"k": None}, "timings of kind gemm lack k"),
        ({"engine": None, "dtype": None}, "timings of kind gemm lack engine, dtype"),
        ({"m": None, "latency_s": None}, "the columns match no kind of timing"),
        ({"m": None, "num_experts": 8}, "timings of kind moe lack num_tokens, hidden_size"),
    ],
)
def test_columns_and_words_of_timings_that_make_no_sense(tmp_path, changes, words):
    from roofline.efficiency.timings import read_timings

    with pytest.raises(rl.SpecError, match=words):
        read_timings(timing(tmp_path, **changes))


@pytest.mark.parametrize("content", [b"x", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b"])
def test_a_compressed_table_that_is_none(tmp_path, content):
    from roofline.efficiency.timings import read_timings

    path = tmp_path / "timings.csv.gz"
    path.write_bytes(content)
    with pytest.raises(rl.SpecError, match="can't be read"):
        read_timings(path)


@pytest.mark.parametrize("place", ["/dev/zero", "/dev/null", "fifo"])
def test_no_reader_waits_for_pipes_or_reads_devices(tmp_path, place):
    """``/dev/zero`` never ends, and a pipe that nobody writes to never starts."""
    from roofline.efficiency.timings import read_timings

    path = Path(place)
    if place == "fifo":
        path = tmp_path / place
        os.mkfifo(path)
    for read in (read_timings, rl.measured.read, rl.read_trace, rl.read_traffic):
        with pytest.raises(rl.SpecError, match="is not a regular file"):
            read(path)
    for get in (rl.get_model, rl.get_accelerator):
        with pytest.raises(rl.RooflineError, match="is not a regular file"):
            get(str(path))
    assert rl.check_specs(path) == [f"{path} is not a regular file"]


def test_a_directory_that_may_not_be_read(tmp_path, monkeypatch):
    def refused(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refused)
    assert rl.check_specs(tmp_path) == [f"{tmp_path} can't be read: Permission denied"]


def test_an_alias_in_yaml_is_named(tmp_path):
    path = tmp_path / "merged.yaml"
    path.write_text("a: &x {b: 1}\nc: {<<: *x}\n")
    with pytest.raises(rl.SpecError, match=r"merged.yaml uses a YAML alias \(line 2\); write the value out"):
        rl.get_accelerator(path)


def test_a_byte_order_mark_before_json_is_no_part_of_it(tmp_path):
    config = {"model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4}
    config |= {"num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000}
    (tmp_path / "config.json").write_text("\ufeff" + json.dumps(config), encoding="utf-8")
    assert rl.get_model(tmp_path).layer_count == 4


def test_a_path_of_thousands_of_characters_is_shown_in_part():
    with pytest.raises(rl.SpecError) as raised:
        rl.measured.read("x" * 5000)
    assert str(raised.value).endswith("can't be read: File name too long")
    assert len(str(raised.value)) < 300


FIGURES = ["l2_bytes", "host_bytes_per_s", "nic_bytes_per_s", "tdp_watts", "compute_units", "max_clock_hz"]


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("wrong", [-1, 0, float("nan"), float("inf"), "x", [], True])
def test_figures_of_an_accelerator_that_make_no_sense(figure, wrong):
    with pytest.raises(rl.InvalidInput, match=figure):
        rl.get_accelerator("h100-sxm").replace(**{figure: wrong})


@pytest.mark.parametrize("wrong", [-1.0, 0.0, float("nan")])
def test_links_and_peaks_that_make_no_sense(wrong):
    """A link of -1 B/s made the network free."""
    link = rl.get_accelerator("h100-sxm").scale_up
    with pytest.raises(rl.InvalidInput, match="bytes_per_s must be a finite number"):
        dataclasses.replace(link, bytes_per_s=wrong)
    with pytest.raises(rl.InvalidInput, match=r"dense_flops_per_s.bf16 must be a finite number"):
        rl.get_accelerator("h100-sxm").replace(dense_flops_per_s={"bf16": wrong})


def test_links_of_no_kind_and_no_domain():
    link = rl.get_accelerator("h100-sxm").scale_up
    with pytest.raises(rl.UnknownName, match="no kind of link named 'rope'"):
        dataclasses.replace(link, kind="rope")
    with pytest.raises(rl.InvalidInput, match="domain must be an integer >= 1: 0"):
        dataclasses.replace(link, domain=0)
    with pytest.raises(rl.InvalidInput, match="domain must be one number"):
        dataclasses.replace(link, domain=[4, 8])


def test_a_name_longer_than_a_file_may_have(h100):
    """Parameters of kernels are looked for in a file of that name."""
    step = rl.decode(rl.Deployment("gpt-2", h100.replace(name="x" * 300)), rl.Workload())
    assert step.estimate_s > step.roofline_s


@pytest.mark.parametrize("peaks", [None, [1e15], 1e15])
def test_peaks_are_figures_by_format(h100, peaks):
    with pytest.raises(rl.InvalidInput, match="dense_flops_per_s must map math formats to FLOP/s"):
        h100.replace(dense_flops_per_s=peaks)


@pytest.mark.parametrize("wrong", [None, 5, "x", [8, 16]])
def test_arguments_of_another_kind_are_named(serve, wrong):
    for run in (rl.prefill, rl.decode, rl.generate, rl.memory):
        with pytest.raises(rl.InvalidInput, match="load must be a Workload, such as Workload"):
            run(serve, wrong)
        with pytest.raises(rl.InvalidInput, match="serve must be a Deployment, such as Deployment"):
            run(wrong, rl.Workload())
    with pytest.raises(rl.InvalidInput, match="serve must be a Deployment"):
        rl.quantize(wrong, weights="fp8")
    with pytest.raises(rl.InvalidInput, match="work must be a Work, such as matmul"):
        rl.bound(wrong, "h100-sxm")
    with pytest.raises(rl.InvalidInput, match="only results of one kind"):
        rl.compare(rl.prefill(serve, rl.Workload()), wrong)
    for setting in ("memory_fraction", "routing_skew"):
        if wrong is not None:
            with pytest.raises(rl.InvalidInput, match=f"{setting} must be"):
                serve.replace(**{setting: wrong} if wrong != 5 else {setting: -5})


@pytest.mark.parametrize("wrong", [None, 5])
def test_traffic_and_techniques_of_another_kind_are_named(serve, wrong):
    with pytest.raises(rl.InvalidInput, match="traffic must be buckets of"):
        rl.advise(serve, wrong)
    with pytest.raises(rl.InvalidInput, match=r"techniques must be values of roofline\.techniques"):
        rl.apply(serve, rl.Workload(), wrong)


@pytest.mark.parametrize("engine", [None, "vllm", "sglang"])
def test_memory_in_32_bit_integers_and_in_arrays(engine):
    small = rl.get_accelerator("h100-sxm").replace(memory_bytes=np.array([2**31 - 1, 2**30], dtype=np.int32))
    need = rl.memory(rl.Deployment("smollm2-135m", small, engine=engine), rl.Workload())
    assert np.all(np.asarray(need.reserved_bytes) > 0)
    assert np.shape(need.fits) == (2,)
    assert "points" in need.summary()
    assert "GB" in repr(small)


def test_counts_beyond_all_measure_are_one_line():
    with pytest.raises(rl.InvalidInput, match="batch must be at most 1e"):
        rl.Workload(batch=1e150)
    with pytest.raises(rl.InvalidInput, match="batch must be at most 1e"):
        rl.Workload(batch=10**400)
    with pytest.raises(rl.InvalidInput, match="batch must be at most 1e"):
        rl.Workload(batch=np.array([1.0, 1e40]))


def test_a_product_without_rows_has_an_estimate():
    found = rl.bound(rl.matmul(0, 8, 8), "h100-sxm")
    assert found.flops == 0
    assert 0 < found.estimate_s < 1e-4
    assert found.explain()


@pytest.mark.parametrize("engine", [None, "vllm", "llamacpp", "llamacpp-2024", "transformers"])
@pytest.mark.parametrize("weights", ["bf16", "fp8", "int4_g128"])
def test_empty_products_in_an_array_have_estimates(engine, weights):
    work = rl.matmul(np.array([0, 0, 5, 5]), np.array([0, 8, 8, 0]), np.array([8, 0, 0, 8]), weights=weights)
    found = rl.bound(work, "h100-sxm", engine=engine)
    assert not np.any(found.flops)
    assert np.all((found.estimate_s > 0) & (found.estimate_s < 1e-3))


def test_sizes_of_a_product_that_make_no_sense():
    with pytest.raises(rl.InvalidInput, match="m, k and n must broadcast"):
        rl.matmul(np.array([1, 2]), np.array([1, 2, 3]), 8)
    with pytest.raises(rl.InvalidInput, match=r"m must be at most 1.8e\+308"):
        rl.matmul(10**400, 8, 8)


def test_shapes_that_do_not_broadcast_cannot_be_compared(serve):
    two, three = (rl.decode(serve, rl.Workload(batch=np.arange(1, last))) for last in (3, 4))
    with pytest.raises(rl.InvalidInput, match="which do not broadcast"):
        rl.compare(two, three)


@pytest.mark.parametrize("activations", ["fp32", "tf32"])
def test_wide_activations_leave_the_tables_of_a_quantized_checkpoint_alone(activations):
    """AWQ and GPTQ checkpoints keep embedding and lm_head in 16 bits, whatever they are computed in."""
    model = rl.get_model("llama-3.1-8b")
    narrow, wide = (rl.Precision(weights="int4_g128", activations=name) for name in ("bf16", activations))
    assert model.weight_bytes(wide) == model.weight_bytes(narrow)


@pytest.mark.parametrize(
    ("module", "asked", "message"),
    [
        ("pandas", lambda step: step.to_frame(), "a table needs pandas: pip install 'roofline[frame]'"),
        ("xarray", lambda step: step.to_xarray(), "a labeled dataset needs xarray: pip install 'roofline[sweep]'"),
    ],
)
def test_a_missing_extra_is_named(monkeypatch, module, asked, message):
    step = rl.decode(rl.Deployment("gpt-2", "l4"), rl.Workload())
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(rl.InvalidInput, match=re.escape(message)):
        asked(step)


def test_a_directory_of_specs_that_cannot_be_read_is_one_line(tmp_path, monkeypatch):
    """As another user than root: a directory that may be seen and not entered."""
    monkeypatch.setenv("ROOFLINE_SPECS", str(tmp_path))
    wanted = Path(tmp_path)

    def refused(path):
        if path == wanted:
            raise PermissionError(13, "Permission denied")
        return iter(())

    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(rl.SpecError, match=r"ROOFLINE_SPECS names '.*', which can't be read: Permission denied"):
        list(spec_folders("hardware_specs"))


@pytest.mark.parametrize("path", [5, None, b"x", "a\0b"])
@pytest.mark.parametrize("read", [rl.check_specs, rl.measured.read, rl.read_trace, rl.read_traffic])
def test_what_is_no_path_is_one_line(read, path):
    with pytest.raises(rl.SpecError, match="is not a path"):
        read(path)


def test_a_version_is_text():
    with pytest.raises(rl.InvalidInput, match="version must be text"):
        rl.Engine("vllm", version=3)


RATED = {
    "serve": rl.serve,
    "simulate": rl.simulate,
    "plan": lambda serve, load, **rate: rl.plan(serve.model, serve.accelerator, load, **rate),
}


@pytest.mark.parametrize("verb", RATED)
@pytest.mark.parametrize(
    ("rate", "says"),
    [
        (1e-300, "at least 1e-09: 1e-300"),
        (5e-324, "at least 1e-09: 4.94066e-324"),
        (1e300, "at most 1,000,000,000: 1e+300"),
        (1e12, "at most 1,000,000,000: 1e+12"),
        (10**400, "at most 1,000,000,000"),
        (0, "a finite number above 0: 0"),
        (-1e300, "a finite number above 0: -1e+300"),
    ],
    ids=str,
)
def test_a_rate_out_of_range_names_the_bound(verb, rate, says):
    serve, load = rl.Deployment("llama-3.1-8b", "h100-sxm"), rl.Workload(500, 50)
    with pytest.raises(rl.InvalidInput, match="requests_per_s must be " + re.escape(says)):
        RATED[verb](serve, load, requests_per_s=rate)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"concurrency": 1e15}, "concurrency must be at most 1,000,000,000: 1e+15"),
        ({"concurrency": np.array([1.0, 1e300])}, "concurrency must be at most 1,000,000,000: 1e+300"),
        ({"concurrency": 1e-300}, "concurrency must be an integer >= 1: 1e-300"),
        ({"requests_per_s": np.array([1e-300, 1.0])}, "requests_per_s must be at least 1e-09: 1e-300"),
        ({"concurrency": 2, "hit_rate": 1.5}, "hit_rate must be a share from 0 to 1: 1.5"),
        ({"concurrency": 2, "method": "simulation", "requests": 1e300}, "requests must be at most 5,000,000: 1e+300"),
    ],
    ids=str,
)
def test_a_load_out_of_range_names_the_bound(given, says):
    serve, load = rl.Deployment("llama-3.1-8b", "h100-sxm"), rl.Workload(500, 50)
    with pytest.raises(rl.InvalidInput, match=re.escape(says)):
        rl.serve(serve, load, **given)


def test_lengths_out_of_range_name_the_bound():
    with pytest.raises(rl.InvalidInput, match=re.escape("audio_s must be at most 1,000,000,000: 1e+300")):
        rl.Workload(audio_s=1e300)
    with pytest.raises(rl.InvalidInput, match=re.escape("prompt_tokens must be at most 1e+30: 1e+300")):
        rl.Workload(prompt_tokens=1e300)
    with pytest.raises(rl.InvalidInput, match=re.escape("utilization must be from 0.001 to 1: 1e-300")):
        rl.plan("llama-3.1-8b", "h100-sxm", rl.Workload(), requests_per_s=1, utilization=1e-300)


def test_a_price_out_of_range_names_the_bound():
    load = rl.Workload()
    with pytest.raises(rl.InvalidInput, match=re.escape("a price must be at most 1,000,000: 1e+300")):
        rl.plan("llama-3.1-8b", "h100-sxm", load, prices={"h100-sxm": 1e300})
    with pytest.raises(rl.InvalidInput, match=re.escape("usd_per_hour must be at most 1,000,000: 1e+300")):
        rl.advise(rl.Deployment("llama-3.1-8b", "h100-sxm"), load, usd_per_hour=1e300)
    with pytest.raises(rl.InvalidInput, match=re.escape("usd_per_hour must be at most 1,000,000: 1e+300")):
        rl.Price(1e300)
