"""The explorer over HTTP: its numbers are the library's, and nobody but this machine gets at them."""

import contextlib
import http.client
import io
import json
import re
import shlex
import socket
import threading
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from command_line import answer, run

import roofline as rl
from roofline.app import command, svg_plots
from roofline.app.http_server import FILES, Explorer
from roofline.app.state import LISTED, LONGEST_QUERY, OPTIONS, START, read_state
from roofline.phases.passes import TIMES
from roofline.report import plain

LLAMA = {"model": "llama-3.1-70b", "hardware": "h100-sxm", "tp": "4", "batch": "8", "prompt": "4k", "output": "200"}


@pytest.fixture(scope="module")
def server():
    explorer = Explorer(0)
    thread = threading.Thread(target=explorer.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield explorer
    explorer.shutdown()
    explorer.server_close()
    thread.join()


@pytest.fixture
def no_drawing(monkeypatch):
    """Pictures that take no time."""
    monkeypatch.setattr("roofline.app.http_server.draw", lambda *_, **__: b"<svg/>")


@pytest.fixture
def ask(server):
    def asked(path, state=None, *, method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
        query = "" if state is None else f"?{urlencode(state)}"
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path + query, headers=sent)
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        return reply, body

    return asked


@pytest.fixture
def numbers(ask):
    def found(state=None):
        reply, body = ask("/api", state)
        assert (reply.status, reply.headers["Content-Type"]) == (200, "application/json; charset=utf-8"), body
        return json.loads(body)

    return found


@pytest.fixture
def refused(ask):
    def found(state):
        reply, body = ask("/api", state)
        assert reply.status == 400
        told = json.loads(body)
        assert "\n" not in told["error"]
        return told["control"], told["error"]

    return found


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_the_numbers_are_the_librarys(numbers):
    found = numbers(LLAMA)
    serve = rl.Deployment("llama-3.1-70b", "h100-sxm", parallel=rl.Parallel(tensor=4))
    load = rl.Workload(prompt_tokens=4000, output_tokens=200, batch=8)
    first, step, memory = rl.prefill(serve, load), rl.decode(serve, load), rl.memory(serve, load)
    users = rl.serve(serve, load, concurrency=8)
    for shown, phase in zip(found["phases"], (first, step), strict=True):
        assert {time: shown[time] for time in TIMES} == {time: plain(getattr(phase, time)) for time in TIMES}
        assert shown["limit"] == phase.limit
    assert found["sentences"] == [memory.summary(), users.summary(), step.summary(), first.summary()]
    assert found["fits"] is memory.fits is True
    assert sum(part["bytes"] for part in found["memory"]["parts"]) == pytest.approx(
        sum(float(size) for name, size in memory.parts.items() if name != "free")
    )
    assert found["queue"]["tokens_per_s"] == plain(users.tokens_per_s)
    assert found["napkin"]["decode step"] == [str(line) for line in rl.napkin(step).lines]
    # 4 accelerators for an hour over what they generate in it
    hourly = 4 * rl.get_price("h100-sxm").usd_per_hour
    assert found["cost"]["usd_per_hour"] == pytest.approx(hourly)
    each = found["cost"]["usd_per_million_tokens"]
    assert each == pytest.approx(hourly / (users.tokens_per_s * 3600 / 1e6))


def test_the_curve_goes_through_the_point_that_is_asked_for(numbers):
    curve = numbers(LLAMA)["curve"]
    serve = rl.Deployment("llama-3.1-70b", "h100-sxm", parallel=rl.Parallel(tensor=4))
    at = curve["batch"].index(8) if 8 in curve["batch"] else 10
    step = rl.decode(serve, rl.Workload(4000, 200, batch=curve["batch"][at]))
    for name in (*TIMES, "estimate_low_s", "estimate_high_s"):
        assert curve[name][at] == pytest.approx(float(getattr(step, name)))
    assert curve["at"]["batch"] == 8
    assert curve["batch"] == sorted(set(curve["batch"]))
    low, mid, high = (curve[name] for name in ("estimate_low_s", "estimate_s", "estimate_high_s"))
    assert all(one <= two <= three for one, two, three in zip(low, mid, high, strict=True))
    assert [len(row) for row in curve["rows"]] == [5] * len(curve["rows"])


def test_time_by_operator_is_all_of_it(numbers):
    found = numbers(LLAMA)["operators"]
    serve = rl.Deployment("llama-3.1-70b", "h100-sxm", parallel=rl.Parallel(tensor=4))
    step = rl.decode(serve, rl.Workload(4000, 200, batch=8))
    whole = sum(float(item.estimate_s) for item in step.operators)
    assert sum(row["estimate_s"] for row in found["decode step"]) == pytest.approx(whole)
    assert sum(row["share"] for row in found["prefill"]) == pytest.approx(1)
    assert {"network", "memory"} <= {row["limit"] for row in found["decode step"]}


def test_a_rate_is_a_queue_whose_batch_runs(numbers):
    found = numbers(LLAMA | {"batch": "", "rate": "1"})
    serve = rl.Deployment("llama-3.1-70b", "h100-sxm", parallel=rl.Parallel(tensor=4))
    users = rl.serve(serve, rl.Workload(4000, 200), requests_per_s=1, requests=1000)
    assert found["queue"]["sentence"] == users.summary()
    assert found["queue"]["head"] == ["time", "mean", "p50", "p95"]
    assert found["batch"] == round(users.running_batch)
    endless = numbers(LLAMA | {"batch": "", "rate": "100"})
    assert "unstable" in endless["headline"]
    assert endless["queue"]["head"] == ["time", "mean"]


def test_what_does_not_fit_is_an_answer(numbers):
    found = numbers({"model": "llama-3.1-70b", "hardware": "h100-sxm"})
    assert found["fits"] is False
    assert found["headline"].startswith("Does not fit on one h100-sxm: 141.8 GB needed")
    assert "the weights leave no memory for a KV cache" in found["queue"]["sentence"]
    assert found["cost"]["usd_per_million_tokens"] is None


def without_price(name):
    try:
        rl.get_price(name)
    except rl.UnknownName:
        return True
    return False


def test_an_accelerator_without_a_price_says_so(numbers):
    name = next(filter(without_price, rl.list_accelerators()))
    found = numbers({"model": "gpt-2", "hardware": name, "batch": "2"})
    assert found["cost"]["sentence"] == f"No price for {name} is known; enter one."
    typed = numbers({"model": "gpt-2", "hardware": name, "batch": "2", "price": "$2.5"})
    assert typed["cost"]["usd_per_hour"] == 2.5


CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}


def test_a_pasted_config_is_a_model(numbers):
    found = numbers({"config": json.dumps(CONFIG, indent=2), "hardware": "l4", "batch": "4"})
    serve = rl.Deployment(rl.get_model(CONFIG), "l4")
    assert found["phases"][1]["estimate_s"] == rl.decode(serve, rl.Workload(batch=4)).estimate_s
    assert "config.json" in found["cli"]


def test_the_empty_state_is_the_one_to_start_from(numbers, ask):
    assert numbers() == numbers(START)
    reply, body = ask("/choices")
    choices = json.loads(body)
    assert reply.status == 200
    assert choices["start"] == START
    assert choices["model"] == rl.list_models()
    assert choices["hardware"] == rl.list_accelerators()
    assert choices["engine"] == rl.list_engines()


STATES = [
    START,
    LLAMA | {"engine": "vllm", "kv": "fp8", "weights": "fp8"},
    {"model": "deepseek-v3", "hardware": "h200-sxm", "tp": "8", "rate": "0.5", "prompt": "3k"},
    {"model": "llama-3.1-8b", "hardware": "l4", "dp": "2", "batch": "6", "engine": "sglang"},
    {"config": json.dumps(CONFIG), "hardware": "l4", "batch": "2"},
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.get("model", "config"))
def test_the_python_code_says_what_the_page_says(numbers, state):
    found = numbers(state)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(found["python"], {})
    if "rate" in state:
        # The page simulates fewer requests than the library does unless asked otherwise.
        mine, theirs = printed.getvalue().splitlines(), found["sentences"]
        assert [mine[0], *mine[2:]] == [theirs[0], *theirs[2:]]
        assert mine[1].startswith("At 0.5 requests/s: TTFT ")
    else:
        assert printed.getvalue().splitlines() == found["sentences"]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.get("model", "config"))
def test_the_commands_say_what_the_page_says(numbers, state, tmp_path, monkeypatch):
    found = numbers(state)
    if "config" in state:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "config.json").write_text(state["config"])
    analyze, serve = (shlex.split(line)[1:] for line in found["cli"].splitlines())
    told = answer(*analyze)
    for name, phase in zip(("prefill", "decode"), found["phases"], strict=True):
        assert {time: told[name][time] for time in TIMES} == {time: phase[time] for time in TIMES}
    users = answer(*serve)
    if "rate" not in state:
        assert users["tokens_per_s"] == found["queue"]["tokens_per_s"]
    assert users["capacity_requests_per_s"] > 0


def test_where_nothing_is_served_the_code_leaves_it_out(numbers):
    found = numbers({"model": "llama-3.1-70b", "hardware": "h100-sxm", "batch": "2"})
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(found["python"], {})
    memory, _, *passes = found["sentences"]
    assert printed.getvalue().splitlines() == [memory, *passes]
    [analyze] = found["cli"].splitlines()
    assert run(*shlex.split(analyze)[1:]).exit_code == 0


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "control", "says"),
    [
        ({"model": "llama-3.1-71b"}, "model", "no model named 'llama-3.1-71b'; did you mean 'llama-3.1-70b'"),
        ({"hardware": "h100"}, "hardware", "no hardware named 'h100'; did you mean"),
        ({"hardware": ""}, "hardware", "choose an accelerator"),
        ({"model": ""}, "model", "choose a model, or paste its config.json"),
        ({"weights": "fp9"}, "weights", "no weights named 'fp9'"),
        ({"engine": "vlm"}, "engine", "no engine named 'vlm'; did you mean 'vllm'"),
        ({"batch": "0"}, "batch", "batch must be an integer >= 1: 0"),
        ({"batch": "-3"}, "batch", "batch must be an integer >= 1: -3"),
        ({"batch": "many"}, "batch", "batch must be an integer >= 1: 'many'"),
        ({"batch": "1,8"}, "batch", "batch takes one value: '1,8'"),
        ({"batch": "--help"}, "batch", "batch must be an integer"),
        ({"prompt": "0"}, "prompt", "prompt_tokens must be an integer >= 1: 0"),
        ({"output": "1.5"}, "output", "output_tokens must be an integer >= 1: 1.5"),
        ({"tp": "0"}, "tp", "tensor must be an integer >= 1: 0"),
        ({"price": "-1"}, "price", "usd_per_hour must be a finite number >= 0: -1"),
        ({"rate": "2"}, "rate", "give either a batch or a rate"),
        ({"batch": "", "rate": "0"}, "rate", "requests_per_s must be a finite number"),
        ({"config": "{"}, "config", "config.json, line 1: Expecting property name"),
        ({"config": "[]"}, "config", "config.json must contain an object"),
        ({"config": "[" * 15_000}, "config", "config.json is nested too deeply"),
        ({"config": '{"model_type": "llama"}'}, "config", "hidden_size"),
        ({"bach": "1"}, None, "no control named 'bach'; did you mean 'batch'?"),
        ({"batch": "1e300"}, "batch", "batch must be at most 1e+30: 1e+300"),
        ({"prompt": "1e13"}, "prompt", "prompt_tokens must be at most 1e+12: 1e+13"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_error_says_what_and_beside_which_control(refused, change, control, says):
    where, message = refused(LLAMA | change)
    assert where == control
    assert says in message


def test_a_control_is_set_once_and_a_query_has_an_end(ask):
    reply, body = ask("/api?model=gpt-2&model=gpt-2&hardware=l4")
    assert (reply.status, json.loads(body)["error"]) == (400, "a control is set twice")
    reply, body = ask("/api", {"config": "x" * LONGEST_QUERY, "hardware": "l4"})
    assert reply.status == 400
    assert "is too long" in json.loads(body)["error"]
    reply, _ = ask("/api", {"config": "x" * 70_000})
    assert reply.status == 414


@pytest.mark.parametrize("name", sorted(LISTED))
@pytest.mark.parametrize("path", ["{}", "../{}", "file://{}"])
def test_no_name_reaches_a_file(refused, tmp_path, monkeypatch, name, path):
    """A spec file that the command line would read is refused by its path, wherever the server was started."""
    monkeypatch.chdir(tmp_path)
    spec = tmp_path / "own.yaml"
    spec.write_text("name: own\n")
    for file in (spec, "own.yaml", "/etc/passwd", "."):
        control, message = refused(LLAMA | {name: path.format(file)})
        assert control == name
        assert "named" in message


# --- who may ask -----------------------------------------------------------------------------------------------------


def test_it_listens_to_this_machine_alone(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.server_port}/"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
def test_only_get_is_answered(ask, method):
    reply, _ = ask("/api", LLAMA, method=method)
    assert (reply.status, reply.headers["Allow"]) == (405, "GET")
    reply, _ = ask("/", method="BREW")
    assert reply.status == 501


@pytest.mark.parametrize("host", ["example.com", "example.com:80", "127.0.0.1", "127.0.0.1.example.com:{}", ""])
def test_a_host_of_another_name_is_refused(ask, server, host):
    for path in ("/", "/api", "/choices", "/plot.svg", "/page.js"):
        reply, body = ask(path, Host=host.format(server.server_port))
        assert reply.status == 421, (path, host)
        assert b"unknown host" in body
    for known in ("localhost", "127.0.0.1"):
        assert ask("/", Host=f"{known}:{server.server_port}")[0].status == 200


@pytest.mark.usefixtures("no_drawing")
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_sites_may_link_to_the_page_and_nothing_else(ask, site):
    assert ask("/", LLAMA, Sec_Fetch_Site=site)[0].status == 200
    for path in ("/api", "/choices", "/plot.svg"):
        assert ask(path, LLAMA, Sec_Fetch_Site=site)[0].status == 403
        assert ask(path, LLAMA, Sec_Fetch_Site="same-origin")[0].status == 200


@pytest.mark.parametrize("path", ["/nothing", "/page/page.html", "/../state.py", "//etc/passwd", "/api/", "/page.css/"])
def test_there_is_nothing_else(ask, path):
    assert ask(path)[0].status == 404


@pytest.mark.usefixtures("no_drawing")
def test_every_answer_has_the_headers_that_keep_it_in(ask):
    for path in (*FILES, "/api", "/choices", "/plot.svg", "/nothing"):
        reply, _ = ask(path)
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        policy = reply.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'" if path == "/plot.svg" else "default-src 'self'")
        assert "frame-ancestors 'none'" in policy


def test_nonsense_on_the_wire_is_refused(server):
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as wire:
        wire.sendall(b"nonsense\r\n\r\n")
        assert b"Bad request" in wire.recv(4096)


# --- pictures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(svg_plots.PICTURES))
def test_a_picture_is_whole_and_loads_nothing(ask, kind):
    reply, body = ask("/plot.svg", LLAMA | {"kind": kind})
    assert (reply.status, reply.headers["Content-Type"]) == (200, "image/svg+xml; charset=utf-8")
    root = ET.fromstring(body)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    links = [value for node in root.iter() for name, value in node.attrib.items() if name.endswith("href")]
    assert all(link.startswith("#") for link in links)


def test_another_picture_is_refused(ask):
    reply, body = ask("/plot.svg", LLAMA | {"kind": "pie"})
    assert reply.status == 400
    assert json.loads(body)["error"].startswith("no picture named 'pie'")
    reply, body = ask("/plot.svg", LLAMA | {"theme": "blue"})
    assert json.loads(body)["error"].startswith("no theme named 'blue'")


def test_a_picture_has_the_background_of_the_page(ask):
    sheet = ask("/page.css")[1].decode()
    cards = re.findall(r"--card: (#\w{6})", sheet)
    assert cards == list(svg_plots.PAPERS.values())
    for theme, paper in svg_plots.PAPERS.items():
        _, body = ask("/plot.svg", START | {"theme": theme})
        assert f"fill: {paper}".encode() in body


def test_a_picture_that_nobody_waits_for_is_not_drawn(monkeypatch):
    monkeypatch.setitem(svg_plots.PICTURES, "roofline", lambda *_: pytest.fail("it was drawn"))
    assert svg_plots.draw(read_state(""), "roofline", wanted=lambda: False) == b""


def test_a_closed_connection_is_noticed(server, monkeypatch):
    drawn, asked, leave = [], threading.Event(), threading.Event()

    def slow(state, kind, *, theme, wanted):
        asked.set()
        leave.wait(10)
        drawn.append(wanted())
        return b""

    monkeypatch.setattr("roofline.app.http_server.draw", slow)
    wire = socket.create_connection(("127.0.0.1", server.server_port), timeout=10)
    wire.sendall(f"GET /plot.svg HTTP/1.1\r\nHost: localhost:{server.server_port}\r\n\r\n".encode())
    asked.wait(10)
    wire.close()
    leave.set()
    for _ in range(500):
        if drawn:
            break
        threading.Event().wait(0.01)
    assert drawn == [False]


def test_a_fault_of_the_program_is_told(ask, monkeypatch, capsys):
    def faulty(_):
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("roofline.app.http_server.numbers", faulty)
    reply, body = ask("/api", LLAMA)
    assert (reply.status, body) == (500, b"internal error: by nothing\n")
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize("batch", ["1e9", "1e12"])
def test_huge_loads_have_an_answer(numbers, batch):
    assert numbers(LLAMA | {"batch": batch})["fits"] is False


# --- the page --------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What the page loads, its controls, ids, and what they point to."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.ids, self.names, self.points = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag in ("script", "link", "img") and (found.get("src") or found.get("href")):
            self.loads.append(found.get("src") or found.get("href"))
        self.ids += [found["id"]] if "id" in found else []
        if tag in ("input", "select", "textarea") and found.get("name"):
            self.names.append(found["name"])
        for name in ("for", "aria-labelledby", "aria-describedby"):
            self.points += found.get(name, "").split()
        assert "style" not in found, "the policy of the page allows no style inside"
        assert not any(name.startswith("on") for name in found), "nor any code"


@pytest.fixture
def page(ask):
    reply, body = ask("/")
    assert reply.status == 200
    return Page(body.decode())


def test_the_page_loads_its_own_files_alone(page, ask):
    assert set(page.loads) <= set(FILES)
    for path in FILES:
        reply, body = ask(path)
        assert reply.status == 200
        assert reply.headers["Content-Type"] == FILES[path][1]
        addresses = set(re.findall(rb"https?://[^\"'\s)]+", body))
        assert addresses <= {b"http://www.w3.org/2000/svg"}, path
    _, script = ask("/page.js")
    assert b"innerHTML" not in script
    assert b"eval(" not in script


def test_every_control_has_a_name_of_the_query_and_a_place_for_its_error(page):
    assert set(page.names) - {"load"} == {*LISTED, *OPTIONS, "config"}
    assert len(page.ids) == len(set(page.ids))
    assert set(page.points) <= set(page.ids)
    assert {f"{name}-error" for name in {*page.names} - {"load"}} <= set(page.ids)


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_says_where_the_page_is(monkeypatch, capsys):
    opened = []
    monkeypatch.setattr(command.webbrowser, "open", opened.append)
    monkeypatch.setattr(Explorer, "serve_forever", lambda self: None)
    command.explore(port=0)
    [address] = opened
    assert capsys.readouterr().out.startswith(address)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
    command.explore(port=0, no_browser=True)
    assert opened == [address]


@pytest.mark.parametrize(
    ("args", "query"),
    [
        ((), {}),
        (("llama-3.1-70b",), {"model": "llama-3.1-70b", "hardware": "h100-sxm"}),
        (
            ("gpt-2", "--hardware", "2xl4", "--kv", "fp8", "--batch", "1k", "--prompt", "32k", "--engine", "vLLM"),
            {"model": "gpt-2", "hardware": "l4", "tp": "2", "kv": "fp8", "batch": "1000", "prompt": "32000"}
            | {"engine": "vllm"},
        ),
        (("--hardware", "l4", "--pp", "2"), {"model": "llama-3.1-8b", "hardware": "l4", "pp": "2"}),
    ],
    ids=str,
)
def test_the_page_may_start_with_a_deployment(monkeypatch, args, query):
    monkeypatch.setattr(Explorer, "serve_forever", lambda self: None)
    done = run("explore", *args, "--no-browser", "--port", "0")
    assert (done.exit_code, done.stderr) == (0, "")
    assert dict(parse_qsl(urlsplit(done.stdout.split()[0]).query)) == query


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("llama-3.1-71b",), "no model named 'llama-3.1-71b'"),
        (("gpt-2", "--batch", "0"), "batch must be an integer >= 1: 0"),
        (("gpt-2", "--batch", "1,2"), "this command takes one value per option: --batch lists several"),
        (("gpt-2", "--context", "99"), "the page has no control for --part and --context"),
        (("gpt-2", "--memory-fraction", "0.8"), "no control named 'memory_fraction'"),
        (("gpt-2", "--hardware", "h1000"), "no accelerator named 'h1000'"),
    ],
    ids=str,
)
def test_a_start_that_makes_no_sense_is_one_line(args, says):
    done = run("explore", *args, "--no-browser", "--port", "0")
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("port", ["-1", "70000", "http", "1.5"])
def test_a_port_that_is_none_is_one_line(port):
    done = run("explore", "--port", port)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("roofline: the port must be an integer from 0 to 65535: ")


def test_a_port_that_is_taken_is_one_line(server):
    done = run("explore", "--no-browser", "--port", server.server_port)
    assert done.exit_code == 2
    assert "Address already in use; --port 0 selects a free port" in done.stderr
    assert done.stderr.count("\n") == 1
