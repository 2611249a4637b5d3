"""Pages that are written from the repository's own data each time the site is built.

``library/``
    every accelerator and every model that the package knows, each figure with its source
``course/``
    the notebooks, with the outputs that they are committed with
``accuracy/``
    the tables that the benchmarks wrote
``gallery/``
    a picture of each example, drawn when the site is built

What is written there is ignored by git, but for the first page of each folder.
"""

import ast
import re
import shutil
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from sphinx.application import Sphinx

import roofline as rl
from roofline.hardware import Provenance
from roofline.specs.library import load_accelerators
from roofline.units import humanize

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent


def write(path: Path, text: str) -> None:
    """Write a page if it changed, so that a second build reads it no more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def table(head: tuple[str, ...], rows: list[tuple[str, ...]], *, words: int = 1, more_words: int = 0) -> str:
    """A Markdown table; the first ``words`` and the last ``more_words`` columns are text, the others numbers."""
    rule = ["---"] * words + ["--:"] * (len(head) - words - more_words) + ["---"] * more_words
    lines = [head, tuple(rule), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def link(title: str, url: str) -> str:
    """A source: its title, linked if it has an address."""
    plain = title.replace("[", "(").replace("]", ")")
    return f"[{plain}]({url})" if url else plain


# --- Accelerators


def figure(chip: rl.Accelerator, field: str) -> float:
    """The figure that a provenance is of: ``memory_bytes``, ``dense_flops_per_s.bf16``, ``scale_up.bytes_per_s``."""
    value = chip
    for part in field.split("."):
        value = value[part] if hasattr(value, "keys") else getattr(value, part)
    return value


def unit_name(field: str) -> str:
    """The name whose ending says the unit of a figure."""
    parts = field.split(".")
    named = [part for part in parts if re.search(r"_(bytes|flops|s|watts|hz|bits|unit|clock)$", part)]
    return named[-1] if named else parts[0]


def basis(source: Provenance) -> str:
    """How a figure was had, in words."""
    words = [source.kind]
    if not source.verified:
        words.append("source not read for this figure")
    return ", ".join(words)


def accelerator_section(chip: rl.Accelerator) -> str:
    """All figures of one accelerator, with their sources."""
    rows = [
        (
            f"`{field}`",
            humanize(unit_name(field), figure(chip, field)),
            source.printed,
            link(source.source, source.url),
            basis(source),
        )
        for field, source in chip.provenance.items()
    ]
    notes = "\n".join(f"- {note}" for note in chip.notes)
    head = ("figure", "value", "as printed", "source", "basis")
    return f"## {chip.name}\n\n{chip.title}\n\n{table(head, rows, words=5)}\n\n{notes}\n"


def accelerator_row(chip: rl.Accelerator, page: str) -> tuple[str, ...]:
    """One line of the table of all accelerators."""
    half = next((name for name in ("bf16", "fp16") if name in chip.dense_flops_per_s), None)
    peak = humanize("flops_per_s", chip.dense_flops_per_s[half]) if half else "–"
    ridge = f"{chip.ridge_flops_per_byte(half):,.0f}" if half else "–"
    return (
        f"[{chip.name}]({page}.md#{chip.name})",
        str(chip.year or ""),
        humanize("memory_bytes", chip.memory_bytes),
        humanize("memory_bytes_per_s", chip.memory_bytes_per_s),
        peak,
        ridge,
    )


def accelerator_pages() -> Iterator[tuple[str, str]]:
    """The table of all accelerators, and a page for each vendor."""
    chips = sorted(load_accelerators(), key=lambda chip: (chip.vendor.lower(), chip.year or 0, chip.name))
    overview, pages = [], []
    for vendor, group in groupby(chips, key=lambda chip: chip.vendor):
        members = list(group)
        page = "accelerators-" + re.sub(r"\W+", "-", vendor.lower())
        pages.append(page)
        head = ("accelerator", "year", "memory", "bandwidth", "dense 16-bit peak", "ridge, FLOP/byte")
        overview.append(f"## {vendor}\n\n{table(head, [accelerator_row(chip, page) for chip in members])}\n")
        sections = "\n".join(accelerator_section(chip) for chip in members)
        yield page, f"# {vendor} accelerators\n\n{sections}"
    intro = (
        f"# Accelerators\n\nThe library contains {len(chips)} accelerators. Peaks are dense, memory is what the\n"
        "device reports, and links count one direction. Each name links to all values with their sources; in\n"
        "Python, they are in `rl.get_accelerator(name).provenance`.\n\n"
    )
    toctree = "```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n\n"
    yield "accelerators", intro + toctree + "\n".join(overview)


# --- Models


def kinds(model: rl.Model) -> str:
    """Kinds of blocks that a model has, in the order of their first use."""
    names = [type(block).__name__ for layer in model.layers for block in layer.blocks]
    return ", ".join(dict.fromkeys(names))


def model_row(name: str) -> tuple[str, ...]:
    """One line of the table of models."""
    model = rl.get_model(name)
    counts = model.parameters
    title, _, url = model.source.partition(" http")
    source = link(title, f"http{url}" if url else "")
    cache = humanize("bytes", model.cache_bytes(32_768))
    return (f"`{name}`", f"{counts.total:,}", f"{counts.active:,}", cache, kinds(model), source)


def models_page() -> str:
    """The table of all models."""
    rows = [model_row(name) for name in rl.list_models()]
    head = ("model", "parameters", "active", "cache of 32,768 tokens", "blocks", "source of the shapes")
    return (
        f"# Models\n\nThe library contains {len(rows)} models; any other `config.json` or GGUF file can be read as\n"
        "well. *Active* parameters are those that one token is multiplied with, lookups excluded. The cache is for\n"
        "one sequence in the checkpoint's own format.\n\n" + table(head, rows, words=1, more_words=2) + "\n"
    )


# --- Benchmarks and notebooks

BENCHMARKS = (
    "floors",
    "published",
    "efficiency",
    "accuracy",
    "serving",
    "found_servers",
    "techniques",
    "found_later",
    "energy",
)


def benchmark_page(name: str) -> str:
    """A page of ``benchmarks/``."""
    return (ROOT / "benchmarks" / f"{name}.md").read_text(encoding="utf-8")


def first_table(name: str) -> list[dict[str, str]]:
    """The first table of a page of ``benchmarks/``, a row a line, cells by their head."""
    lines = benchmark_page(name).split("\n| ", 1)[1].split("\n\n")[0].splitlines()
    head, _, *body = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    return [dict(zip(head, row, strict=True)) for row in body]


def whole(cell: str) -> int:
    """A count as it is printed."""
    return int(cell.replace(",", ""))


def summary() -> str:
    """What the benchmarks found, in a few lines; every number is read from their tables."""
    kernels, figures, estimates = (first_table(name) for name in ("floors", "published", "accuracy"))
    lines = []
    for what, rows in (("kernel timings", kernels), ("published figures of whole models", figures)):
        count = sum(whole(row["rows"]) for row in rows)
        beaten = sum(whole(row["beat their floor"]) for row in rows)
        lines.append(f"- **Floors** were compared with {count:,} {what}: {beaten or 'none'} of them beat their floor.")
    shown = [(row["kernels"], row["rows"], row["today's kernels: median"], row["default: median"]) for row in estimates]
    head = ("kernels", "timings", "median error, engine named", "median error, no engine named")
    return "\n".join(lines) + "\n\n" + table(head, shown) + "\n"


# --- Gallery


def gallery_section(example: Path) -> str:
    """Draw an example, and return its title, text, picture and code; the example leaves its axes in ``ax``."""
    source = example.read_text(encoding="utf-8")
    tree = ast.parse(source)
    title, _, text = (ast.get_docstring(tree) or "").partition("\n")
    scope: dict[str, object] = {}
    exec(compile(tree, str(example), "exec"), scope)
    picture = example.with_suffix(".png")
    scope["ax"].figure.savefig(picture, dpi=130, metadata={"Software": None})
    plt.close("all")
    code = source.split('"""', 2)[2].strip()
    shown = f"![{title.rstrip('.')}]({picture.name})"
    return f"## {title.rstrip('.')}\n\n{text.strip()}\n\n{shown}\n\n```python\n{code}\n```\n"


def gallery_page() -> str:
    """All examples of the gallery."""
    mpl.use("Agg")
    sections = [gallery_section(example) for example in sorted((DOCS / "gallery").glob("*.py"))]
    intro = "Each picture is drawn by the code below it. Plots take results and return matplotlib axes.\n"
    return "\n".join(["# Gallery\n", intro, *sections])


def write_pages(app: Sphinx) -> None:
    """Write all pages before the sources are looked for."""
    for name, text in accelerator_pages():
        write(DOCS / "library" / f"{name}.md", text)
    write(DOCS / "library" / "models.md", models_page())
    write(DOCS / "accuracy" / "summary.txt", summary())
    for name in BENCHMARKS:
        write(DOCS / "accuracy" / f"{name}.md", benchmark_page(name))
    shutil.copy2(ROOT / "benchmarks" / "serving.png", DOCS / "accuracy" / "serving.png")
    write(DOCS / "gallery" / "index.md", gallery_page())
    (DOCS / "course").mkdir(exist_ok=True)
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        shutil.copy2(notebook, DOCS / "course" / notebook.name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the writer."""
    app.connect("builder-inited", write_pages, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
