"""The explorer as people use it: Chromium, wide and narrow, by keyboard, with every other host out of reach."""

import json
import re
import shutil
import threading
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

import roofline as rl
from roofline.app.http_server import Explorer

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
playwright = pytest.importorskip("playwright.sync_api", reason="needs roofline[browser]")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs roofline[browser]")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
LONG_MS = 60_000
"""Patience on a machine that is busy with other tests."""


@pytest.fixture(scope="module")
def server():
    explorer = Explorer(0)
    thread = threading.Thread(target=explorer.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield explorer
    explorer.shutdown()
    explorer.server_close()
    thread.join()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as tools:
        # A container has neither the rights for the browser's sandbox nor a large shared memory.
        started = tools.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield started
        started.close()


@pytest.fixture
def size(request):
    return getattr(request, "param", WIDE)


wide_and_narrow = pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1280", "390"], indirect=True)


@pytest.fixture
def context(browser, size, server):
    made = browser.new_context(viewport=size)
    made.set_default_timeout(LONG_MS)
    elsewhere = []

    def only_here(route):
        if urlsplit(route.request.url).netloc == f"127.0.0.1:{server.server_port}":
            return route.continue_()
        elsewhere.append(route.request.url)
        return route.abort()

    made.route("**/*", only_here)
    yield made
    made.close()
    assert elsewhere == []


@pytest.fixture
def page(context):
    found = context.new_page()
    faults = []
    found.on("pageerror", lambda error: faults.append(str(error)))
    found.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    yield found
    expected = ("status of 400", "net::ERR_INTERNET_DISCONNECTED")
    assert [fault for fault in faults if not any(words in fault for words in expected)] == []


@pytest.fixture
def opened(page, server):
    def at(state=None):
        page.goto(server.url + (f"?{urlencode(state)}" if state else ""))
        settled(page)
        return page

    return at


def expect(locator):
    playwright.expect.set_options(timeout=LONG_MS)
    return playwright.expect(locator)


def settled(page):
    """The numbers of the controls are there."""
    expect(page.locator("#results:not([aria-busy])")).to_be_attached()
    expect(page.locator("#cli")).not_to_be_empty()


def controls(page):
    return {name: value for name, [value] in parse_qs(urlsplit(page.url).query).items()}


@wide_and_narrow
def test_it_opens_with_an_answer(opened):
    page = opened()
    users = rl.serve(rl.Deployment("llama-3.1-8b", "h100-sxm"), rl.Workload(2000, 256), concurrency=16)
    expect(page.locator("#title")).to_have_text("Llama 3.1 8B on NVIDIA H100 SXM5 80GB")
    expect(page.locator("#answer")).to_contain_text(f"{users.tokens_per_s:,.0f} output tokens/s")
    expect(page.locator("#curve svg path")).to_have_count(4)
    expect(page.locator("#decode-operators li").first).to_contain_text("attention")
    expect(page.locator("#roofline")).to_have_attribute("src", re.compile(r"^/plot\.svg\?model=llama-3\.1-8b"))
    assert page.locator("#roofline").evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
    assert "Roofline of Llama 3.1 8B" in page.locator("#roofline").get_attribute("alt")


@wide_and_narrow
def test_nothing_is_wider_than_the_window(opened, size):
    page = opened({"model": "deepseek-v3", "hardware": "h200-sxm", "tp": "8", "batch": "64", "engine": "vllm"})
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
    for control in page.locator("form select, form input:visible").all():
        box = control.bounding_box()
        if box:
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= size["width"]
            assert box["height"] >= 13 or control.get_attribute("type") == "radio"


@wide_and_narrow
def test_axe_finds_no_fault(opened, page):
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        opened({"model": "llama-3.1-70b", "hardware": "h100-sxm", "tp": "4", "rate": "1"})
        page.locator("summary").last.click()
        found = axe.Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


def test_axe_finds_no_fault_beside_an_error(opened):
    page = opened({"model": "llama-3.1-8b", "hardware": "h100-sxm", "batch": "16"})
    page.get_by_label("Batch", exact=True).fill("0")
    expect(page.locator("#batch-error")).not_to_be_empty()
    assert axe.Axe().run(page).violations_count == 0


@wide_and_narrow
def test_it_is_used_by_keyboard_alone(opened):
    page = opened()
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Model", exact=True)).to_be_focused()
    page.keyboard.type("gemma-3-27b")
    expect(page.locator("#title")).to_contain_text("Gemma 3 27B")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Accelerator", exact=True)).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_label("Rate, requests/s", exact=True)).to_be_visible()
    expect(page.locator("#queue-sentence")).to_contain_text("At 2 requests/s")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Batch", exact=True)).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Batch, slider")).to_be_focused()
    before = page.get_by_label("Batch", exact=True).input_value()
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    batch = page.get_by_label("Batch", exact=True).input_value()
    assert int(batch) > int(before)
    expect(page.locator("#queue-sentence")).to_contain_text(f"With {batch} requests in the system")
    assert page.get_by_label("Batch, slider").get_attribute("aria-valuetext") == batch
    assert controls(page)["batch"] == batch
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"


def test_the_address_is_the_state(opened):
    state = {"model": "llama-3.1-70b", "hardware": "h200-sxm", "weights": "fp8", "tp": "2", "pp": "2", "batch": "32"}
    page = opened(state)
    for name, label in (
        ("hardware", "Accelerator"),
        ("weights", "Weights"),
        ("tp", "Tensor parallel"),
        ("pp", "Pipeline"),
    ):
        expect(page.get_by_label(label, exact=True)).to_have_value(state[name])
    entries = page.evaluate("history.length")
    page.get_by_label("Prompt, tokens", exact=True).fill("8k")
    expect(page.locator("#cli")).to_contain_text("--prompt 8k")
    assert controls(page) == state | {"prompt": "8k", "output": "256"}
    assert page.evaluate("history.length") == entries, "the way back is not through every step of a slider"
    page.reload()
    settled(page)
    expect(page.get_by_label("Prompt, tokens", exact=True)).to_have_value("8k")
    expect(page.locator("#cli")).to_contain_text("--prompt 8k")


def test_the_last_of_many_steps_is_shown(opened):
    page = opened()
    batch = page.get_by_label("Batch", exact=True)
    for each in (1, 2, 4, 8, 16, 32, 64, 48, 24):
        batch.fill(str(each))
    expect(page.locator("#cli")).to_contain_text("--batch 24")
    expect(page.locator("#queue-sentence")).to_contain_text("With 24 requests in the system")
    expect(page.locator("#roofline")).to_have_attribute("src", re.compile("batch=24"))


def test_an_error_stands_beside_its_control(opened):
    page = opened()
    batch = page.get_by_label("Batch", exact=True)
    batch.fill("none")
    expect(page.locator("#batch-error")).to_have_text("batch must be an integer >= 1: 'none'")
    assert batch.get_attribute("aria-invalid") == "true"
    assert "batch-error" in batch.get_attribute("aria-describedby")
    expect(page.locator("#results")).to_have_class("stale")
    expect(page.locator("#queue-sentence")).to_contain_text("With 16 requests")
    batch.fill("12")
    expect(page.locator("#queue-sentence")).to_contain_text("With 12 requests")
    expect(page.locator("#batch-error")).to_be_empty()
    assert batch.get_attribute("aria-invalid") is None


def test_a_name_in_the_address_that_is_in_no_list_is_an_error(page, server):
    page.goto(f"{server.url}?model=gpt-2&hardware=h100&batch=1")
    expect(page.locator("#hardware-error")).to_contain_text("no hardware named 'h100'; did you mean")
    page.get_by_label("Accelerator", exact=True).select_option("h100-sxm")
    expect(page.locator("#title")).to_contain_text("NVIDIA H100 SXM5 80GB")


def test_what_does_not_fit_says_so_and_what_would(opened):
    page = opened({"model": "llama-3.1-70b", "hardware": "h100-sxm", "batch": "1"})
    expect(page.locator("#answer")).to_contain_text("fits with fp8 weights, or on 2")
    page.get_by_label("Tensor parallel", exact=True).fill("2")
    expect(page.locator("#answer")).to_contain_text("output tokens/s")


CONFIG = {
    "model_type": "qwen3",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}


def test_a_config_is_pasted(opened):
    page = opened()
    page.get_by_label("Model", exact=True).select_option(label="paste a config.json …")
    expect(page.locator("#model-error, #config-error, #fault").filter(has_text="paste its config.json")).to_have_count(
        1
    )
    area = page.get_by_label("config.json, pasted")
    area.fill("{nonsense")
    expect(page.locator("#config-error")).to_contain_text("config.json, line 1")
    area.fill(json.dumps(CONFIG, indent=1))
    floor = rl.decode(rl.Deployment(rl.get_model(CONFIG), "h100-sxm"), rl.Workload(2000, 256, batch=16)).floor_s
    expect(page.locator("#passes tbody tr").last).to_contain_text(f"{floor * 1e3:.3g} ms")
    expect(page.locator("#cli")).to_contain_text("roofline analyze config.json")
    page.reload()
    expect(area).to_have_value(re.compile("qwen3"))


def test_it_is_copied_as_python_and_as_commands(opened, context):
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = opened()
    page.get_by_role("button", name="Copy as Python").click()
    expect(page.locator("#copied")).to_have_text("Copied: the Python code.")
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#python").inner_text()
    page.get_by_role("button", name="Copy as CLI").click()
    expect(page.locator("#copied")).to_have_text("Copied: the commands.")
    assert page.evaluate("navigator.clipboard.readText()").startswith(
        "roofline analyze llama-3.1-8b --hardware h100-sxm"
    )


def test_a_server_that_has_gone_is_told(page):
    own = Explorer(0)
    thread = threading.Thread(target=own.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    page.context.unroute("**/*")
    page.goto(own.url)
    settled(page)
    page.context.set_offline(True)
    page.get_by_label("Batch", exact=True).fill("3")
    expect(page.locator("#fault")).to_contain_text(
        "The server does not answer; start it again with `roofline explore`."
    )
    own.shutdown()
    own.server_close()
    thread.join()
