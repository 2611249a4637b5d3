"""The ridge table, price lists, the editor's schema, and the check of whole folders."""

import dataclasses
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import roofline as rl
from roofline.files import read_yaml
from roofline.specs.coverage import page_with_table
from roofline.specs.schema import AcceleratorSpec
from roofline.specs.validation import SCHEMAS, schema_text
from roofline.units import UNITS

SPECS = Path(rl.__file__).parent.parent / "hardware_specs"


# ---- ridge table ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    return rl.ridge_table()


def test_a_row_an_accelerator(table):
    assert table.name.tolist() == rl.list_accelerators()
    assert list(table.to_dict()) == list(table.columns)


@pytest.mark.parametrize(
    ("name", "math", "ridge"),
    [
        ("h100-sxm", "bf16", 989.4 / 3.35),
        ("h100-sxm", "fp8", 1978.9 / 3.35),
        ("a100-sxm-80gb", "bf16", 312 / 2.039),
        ("h20-96gb", "bf16", 37.0),  # 148 / 4.0
        ("tpu-v5e", "bf16", 240.5),  # "about 240", How to Scale Your Model
        ("v100-sxm2-32gb", "fp16", 125 / 0.9),
    ],
)
def test_ridge_points(table, name, math, ridge):
    row = table.rows()[table.name.tolist().index(name)]
    assert row[f"{math}_ridge_flops_per_byte"] == pytest.approx(ridge, rel=1e-3)


def test_a_format_without_units_has_no_ridge(table):
    row = table.rows()[table.name.tolist().index("t4")]
    assert row["bf16_ridge_flops_per_byte"] is None
    assert row["fp16_ridge_flops_per_byte"] == pytest.approx(65e12 / 320e9)
    assert json.loads(json.dumps(table.to_dict(), allow_nan=False))["vendor"][0] == "NVIDIA"


def test_filters():
    google = rl.ridge_table(vendor="google")
    assert set(google.vendor) == {"Google"}
    assert {"tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7x"} <= set(google.name)
    large = rl.ridge_table(minimum_memory_bytes=200e9)
    assert min(large.memory_bytes) >= 200e9
    assert {"mi300x", "b300-sxm"} <= set(large.name)
    assert "h200-sxm" not in large.name
    four_bits = rl.ridge_table(has_format="fp4")
    assert {"b200-sxm", "mi355x", "rtx-5090"} <= set(four_bits.name)
    assert "h100-sxm" not in four_bits.name
    both = rl.ridge_table(vendor="AMD", has_format="fp4")
    assert set(both.name) == set(four_bits.name) & set(rl.ridge_table(vendor="AMD").name)


@pytest.mark.parametrize("column", ["memory_bytes_per_s", "year", "name", "fp4_ridge_flops_per_byte"])
def test_sorting_puts_rows_without_a_value_last(column):
    for descending in (False, True):
        values = rl.ridge_table(sort_by=column, descending=descending).to_dict()[column]
        known = [value for value in values if value is not None]
        assert known == sorted(known, reverse=descending)
        assert values[: len(known)] == known


def test_a_table_of_nothing():
    empty = rl.ridge_table(vendor="Groq", has_format="fp4")
    assert empty.rows() == []
    assert empty.to_frame().shape == (0, len(empty.columns))
    assert repr(empty).splitlines()[0].startswith("name")
    assert "<tbody></tbody>" in empty._repr_html_()


def test_what_people_see(table):
    head, *lines = repr(table).splitlines()
    assert head.split()[:5] == ["name", "vendor", "year", "memory", "bandwidth"]
    line = next(line for line in lines if line.startswith("h100-sxm"))
    assert " ".join(line.split()) == "h100-sxm NVIDIA 2022 85.52 GB 3.35 TB/s 295 295 591 – 591 –"
    assert table._repr_html_().count("<tr>") == len(lines) + 1
    frame = table.to_frame()
    assert frame.shape == (len(lines), len(table.columns))
    assert np.isnan(frame.set_index("name").loc["t4", "bf16_ridge_flops_per_byte"])


def test_html_is_escaped():
    chip = dataclasses.replace(rl.get_accelerator("t4"), name="<b>t4</b>")
    from roofline.analysis.ridges import RidgeTable

    assert "<b>" not in RidgeTable((chip,))._repr_html_()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"vendor": "Nvidiaa"}, "no vendor named 'Nvidiaa'; known: AMD, AWS, "),
        ({"has_format": "fp5"}, "no math format named 'fp5'; did you mean"),
        ({"sort_by": "memory"}, "no column named 'memory'; did you mean 'memory_bytes'"),
        ({"minimum_memory_bytes": -1}, "minimum_memory_bytes must be a finite number >= 0: -1"),
    ],
)
def test_wrong_filters(wrong, said):
    with pytest.raises(rl.RooflineError, match=said):
        rl.ridge_table(**wrong)


# ---- prices ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "conditions", "usd", "date"),
    [
        ("h100-sxm", {"provider": "AWS"}, 55.04 / 8, "2026-07-20"),
        ("a100-sxm-40gb", {"provider": "AWS"}, 21.9576 / 8, "2026-07-20"),
        ("h200-sxm", {"provider": "Azure"}, 84.80 / 8, "2026-06-18"),
        ("h200-sxm", {"term": "reserved_3y"}, 48.5509 / 8, "2026-04"),
        ("h200-sxm", {"term": "capacity_block"}, 43.26 / 8, "2024-12"),
        ("l4", {}, 0.8048, "2026-07-20"),
        ("l4", {"provider": "google", "region": "us-east4"}, 0.7045, "2026-08-06"),
        ("l4", {"provider": "google", "term": "spot", "region": "us-east4"}, 0.3106, "2026-08-06"),
        ("l40s", {}, 1.861, "2026-07-20"),
        ("l40s", {"market": "marketplace"}, 0.709, "2026-10-03"),
        ("trainium1", {"provider": "AWS"}, 1.3438, "2026-07-20"),
        ("rtx-4090", {"provider": "Vast"}, 0.429, "2026-10-03"),
        ("b200-sxm", {"provider": "CoreWeave"}, 8.60, "2026-06"),
        ("mi300x", {"market": "hyperscaler", "provider": "Oracle"}, 6.0, "2026"),
        ("tpu-v5e", {}, 1.20, "2026-08-19"),
    ],
)
def test_prices_are_for_one_accelerator_and_dated(name, conditions, usd, date):
    """Of the smallest host: oversized instances of L4 and L40S cost 1.67 and 4.53 an hour."""
    price = rl.get_price(name, **conditions)
    assert price.usd_per_hour == pytest.approx(usd, rel=1e-4)
    assert price.date == date
    assert f"{usd:.2f} USD/h" in str(price)
    assert date in str(price)
    assert price.source in str(price)
    assert price.term == conditions.get("term", "on_demand")


def test_a_price_says_instance_region_and_market():
    price = rl.get_price("h100-sxm")
    assert (price.instance, price.region, price.accelerators) == ("p5.48xlarge", "us-east-1", 8)
    assert (price.market, price.currency, price.term) == ("hyperscaler", "USD", "on_demand")
    assert str(price).startswith("6.88 USD/h (AWS p5.48xlarge us-east-1 on demand, 2026-07-20;")


def test_the_median_over_providers_where_none_is_large():
    """Of marketplaces and clouds each provider counts once, with its lowest price."""
    clouds = rl.list_prices("h100-sxm", market="cloud", term="on_demand")
    lowest = sorted(
        {
            price.provider: min(p.usd_per_hour for p in clouds if p.provider == price.provider) for price in clouds
        }.values()
    )
    assert len(lowest) >= 5
    assert rl.get_price("h100-sxm", market="cloud").usd_per_hour == lowest[(len(lowest) - 1) // 2]


def test_terms_other_than_on_demand_only_where_nothing_else_is_listed():
    assert rl.get_price("trainium2").term == "capacity_block"
    assert rl.get_price("h100-sxm").term == "on_demand"
    assert {price.term for price in rl.list_prices("h100-sxm")} == {"on_demand", "spot", "capacity_block"}


def test_no_price_is_invented():
    assert rl.list_prices("p40") == ()
    with pytest.raises(rl.UnknownName, match=r"no price of p40 is known; give one: Price\(2.5\), or p40=2.5 on the"):
        rl.get_price("p40")
    with pytest.raises(rl.UnknownName, match=r"no price of l4 from 'Vast' is known; known: .*AWS \(on_demand\)"):
        rl.get_price("l4", provider="Vast")
    with pytest.raises(rl.UnknownName, match="no term named 'hourly'; known: capacity_block"):
        rl.list_prices("l4", term="hourly")
    with pytest.raises(rl.UnknownName, match="no market named 'bazaar'; known: cloud"):
        rl.list_prices("l4", market="bazaar")


def test_purchase_prices():
    newest = rl.list_purchases("rtx-5090")[0]
    assert (newest.usd, newest.kind, newest.date) == (5000, "street", "2026-09")
    assert "one secondary source" in newest.note
    assert {price.kind for price in rl.list_purchases("rtx-5090")} == {"street", "msrp"}
    assert rl.list_purchases("h20-96gb") == ()


def test_an_owned_accelerator_costs_its_depreciation_and_its_power():
    """30,000 USD over 4 years at 80 %: 1.0702 an hour of use; 1 kW at 0.12 a kWh and a PUE of 1.25: 0.15.

    A quarter of an hour idle belongs to each hour of use: 200 W there add 0.0075.
    """
    power = rl.Power(usd_per_kwh=0.12, pue=1.25, host_w=100)
    price = rl.Price.owned(30_000, 4, 0.8, power, watts=900)
    assert price.usd_per_hour == pytest.approx(30_000 / 28_032 + 0.15)
    assert price.term == "owned"
    assert "electricity at 0.12 USD/kWh but for idle hours" in price.source
    idle = rl.Price.owned(30_000, 4, 0.8, rl.Power(usd_per_kwh=0.12, pue=1.25, host_w=100, idle_w=100), watts=900)
    assert idle.usd_per_hour == pytest.approx(30_000 / 28_032 + 0.15 + 0.0075)
    bare = rl.Price.owned(30_000, years=4, utilization=0.8)
    assert bare.usd_per_hour == pytest.approx(30_000 / 28_032)
    assert "without electricity" in bare.source
    limited = rl.Price.owned(30_000, 4, 1.0, rl.Power(usd_per_kwh=0.1, limit_w=500))
    assert limited.usd_per_hour == pytest.approx(30_000 / 35_040 + 0.05)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"years": 0}, "years must be > 0: 0"),
        ({"years": 4, "utilization": 0}, "utilization must be above 0 and at most 1: 0"),
        ({"years": 4, "utilization": 80}, "utilization must be above 0 and at most 1: 80"),
        ({"years": 4, "watts": -1, "power": rl.Power(usd_per_kwh=0.1)}, "watts must be a finite number >= 0: -1"),
        ({"years": 4, "power": rl.Power(usd_per_kwh=0.1)}, "a price with electricity needs watts, or limit_w"),
    ],
)
def test_an_owned_accelerator_of_nonsense(wrong, said):
    with pytest.raises(rl.InvalidInput, match=said):
        rl.Price.owned(30_000, **wrong)


def test_ones_own_price():
    assert str(rl.Price(1.9)) == "1.90 USD/h (own price, no date; set by the user)"
    with pytest.raises(rl.InvalidInput, match="usd_per_hour must be a finite number >= 0: -1"):
        rl.Price(-1)


OWN = """\
name: contract
sources: {us: {title: Our contract}}
prices:
  - {accelerator: h100-sxm, provider: Us, accelerators: 8, date: "2026-11-01",
     usd_per_hour: {value: 16, unit: USD/h, source: us}}
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    folder = tmp_path / "hardware_specs" / "prices"
    folder.mkdir(parents=True)
    monkeypatch.setenv("ROOFLINE_SPECS", str(tmp_path))
    return folder / "contract.yaml"


def test_the_price_list_in_the_readme_is_a_good_file(own):
    """Of the folder of accelerators."""
    page = (SPECS / "README.md").read_text(encoding="utf-8")
    own.write_text(page.split("```yaml\n")[2].split("```")[0], encoding="utf-8")
    assert rl.check_specs(own) == []
    price = rl.get_price("h100-sxm")
    assert (price.usd_per_hour, price.term, price.region, price.market) == (2.0, "reserved_1y", "berlin", "own")


def test_ones_own_list_goes_first(own):
    own.write_text(OWN, encoding="utf-8")
    assert rl.list_prices("h100-sxm") == (rl.Price(2.0, "2026-11-01", "Our contract", "Us", accelerators=8),)
    assert len({price.provider for price in rl.list_prices("b200-sxm")}) >= 5
    assert "contract" not in rl.list_accelerators()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("unit: USD/h", "unit: USD", "prices.0.usd_per_hour holds usd_per_hour, but 16 USD is in usd"),
        ("value: 16", "value: -16", "prices.0.usd_per_hour.value must be greater than 0: -16"),
        ("source: us", "source: them", "prices.0.usd_per_hour: source 'them' is not among us"),
        ('"2026-11-01"', '"November"', "a date is YYYY-MM-DD, YYYY-MM or YYYY: 'November'"),
        ('"2026-11-01"', '"2026-11-31"', "no such date: '2026-11-31'"),
        ('"2026-11-01"', '"2206-11-01"', "the year must be 1990 to 2035: '2206-11-01'"),
        (', date: "2026-11-01"', "", "prices.0.date is missing"),
        ("accelerators: 8", "accelerators: 0", "prices.0.accelerators must be greater than or equal to 1: 0"),
    ],
)
def test_a_faulty_list(own, old, new, said):
    own.write_text(OWN.replace(old, new), encoding="utf-8")
    with pytest.raises(rl.SpecError) as error:
        rl.get_price("h100-sxm")
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert any(said in fault for fault in rl.check_specs(own.parent.parent))


def test_every_listed_price_is_of_a_known_accelerator():
    files = [read_yaml(path) for path in sorted((SPECS / "prices").glob("*.yaml"))]
    listed = [row for file in files for row in [*file.get("prices", []), *file.get("purchases", [])]]
    assert {row["accelerator"] for row in listed} <= set(rl.list_accelerators())


# ---- schema and check -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", SCHEMAS)
def test_the_schema_files_are_those_of_the_kinds_of_spec(file):
    """After a change: ``python -m roofline.specs.validation``."""
    assert (SPECS.parent / file).read_text(encoding="utf-8") == schema_text(file)


@pytest.mark.parametrize("file", SCHEMAS)
def test_a_schema_has_an_id_and_describes_every_field(file):
    schema = json.loads(schema_text(file))
    assert schema["$id"] == f"urn:roofline:{file}"
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert schema["description"]
    for name, part in {"": schema, **schema["$defs"]}.items():
        if name in ("", "Quantity", "Source", "PriceSpec", "InstanceSpec", "KernelSpec", "LinkSpec", "LayerSpec"):
            assert all("description" in field for field in part["properties"].values()), name


def test_the_schema_knows_fields_units_and_formats():
    schema = json.loads(schema_text())
    assert set(schema["properties"]) == set(AcceleratorSpec.model_fields)
    assert schema["additionalProperties"] is False
    assert schema["properties"]["memory_bytes"]["properties"]["unit"]["enum"] == list(UNITS["bytes"])
    assert "fp4" in schema["properties"]["dense_flops_per_s"]["properties"]
    assert {"memory_bytes", "memory_bytes_per_s", "dense_flops_per_s", "sources"} <= set(schema["required"])


OTHER_KINDS = ("engines", "families", "power", "public_products")
"""Files of efficiency_specs that are not of one accelerator."""


@pytest.mark.parametrize("file", SCHEMAS)
def test_every_file_of_the_library_is_valid_by_its_schema(file):
    """By a validator that knows nothing of this package; it comes with nbformat."""
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json.loads(schema_text(file)))
    validator.check_schema(validator.schema)
    paths = [path for path in (SPECS.parent / file).parent.glob("*.yaml") if path.stem not in OTHER_KINDS]
    assert len(paths) > 1
    for path in paths:
        assert [error.message for error in validator.iter_errors(read_yaml(path))] == [], path


def test_every_file_names_its_schema():
    root = SPECS.parent
    files = [*SPECS.glob("*.yaml"), *SPECS.glob("*/*.yaml"), *(root / "model_specs").glob("*.yaml")]
    first = {path.name: path.read_text(encoding="utf-8").split("\n", 1)[0] for path in files}
    assert set(first.values()) == {"# yaml-language-server: $schema=schema.json"}


def test_the_page_says_how_much_was_read():
    """After a change: ``python -m roofline.specs.coverage``."""
    page = (SPECS / "README.md").read_text(encoding="utf-8")
    assert page == page_with_table(page)
    last = page.split("<!-- end of coverage -->")[0].strip().splitlines()[-1]
    figures, read = (int(cell.replace(",", "")) for cell in last.split("|")[2:4])
    assert figures == sum(len(rl.get_accelerator(name).provenance) for name in rl.list_accelerators())
    unread = sum(path.read_text(encoding="utf-8").count("verified: false") for path in SPECS.glob("*.yaml"))
    assert figures - read == unread


@pytest.mark.parametrize("kind", ["hardware_specs", "efficiency_specs"])
def test_the_library_has_no_fault(kind):
    assert rl.check_specs(SPECS.parent / kind) == []


def test_a_folder_with_several_faults(tmp_path):
    shutil.copy(SPECS / "t4.yaml", tmp_path / "t5.yaml")
    (tmp_path / "l4.yml").write_text((SPECS / "l4.yaml").read_text().replace("unit: MiB", "unit: GB/s", 1))
    (tmp_path / "broken.yaml").write_text("a: [")
    (tmp_path / "other.yaml").write_text("recipe: soup\n")
    (tmp_path / "good.txt").write_text("not looked at")
    faults = rl.check_specs(tmp_path)
    assert len(faults) == 4
    assert all(fault.startswith(str(tmp_path)) and "\n" not in fault for fault in faults)
    for words in (
        "must match the file name: 't5'",
        "23034 GB/s",
        "not valid YAML",
        "is not a spec file: it has no key of",
    ):
        assert sum(words in fault for fault in faults) == 1


def test_two_files_of_one_name_in_a_folder(tmp_path):
    shutil.copy(SPECS / "t4.yaml", tmp_path)
    shutil.copy(SPECS / "t4.yaml", tmp_path / "t4.yml")
    assert rl.check_specs(tmp_path) == [f"{tmp_path / 't4.yml'} has the name of {tmp_path / 't4.yaml'}; rename one"]


def test_a_misspelt_kind_is_still_told(tmp_path):
    text = (SPECS / "t4.yaml").read_text().replace("dense_flops_per_s:", "dense_flop_per_s:", 1)
    (tmp_path / "t4.yaml").write_text(text)
    assert any("did you mean 'dense_flops_per_s'" in fault for fault in rl.check_specs(tmp_path / "t4.yaml"))


# ---- live prices ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Offer:
    """A row of the live catalog."""

    provider: str
    instance_name: str
    gpu_name: str | None
    gpu_memory: float | None
    gpu_count: int
    price: float
    spot: bool = False
    location: str = "somewhere"


class Catalog:
    offers = (
        Offer("aws", "p5.48xlarge", "H100", 80, 8, 55.04),
        Offer("aws", "p4d.24xlarge", "A100", 40, 8, 21.96),
        Offer("vastai", "123456", "H100", 80, 1, 2.0),
        Offer("runpod", "NVIDIA H100 NVL", "H100NVL", 94, 1, 2.6),
        Offer("gcp", "a3-highgpu-8g", "H100", 80, 8, 30.0, spot=True),
        Offer("nebius", "cpu-only", None, None, 0, 0.1),
    )

    def query(self, **asked):
        self.asked = asked
        return list(self.offers)


def test_live_prices_are_read_only_when_asked(monkeypatch):
    catalog = Catalog()
    monkeypatch.setitem(sys.modules, "gpuhunt", catalog)
    prices = rl.live_prices("h100-sxm", spot=None)
    assert [(price.provider, price.usd_per_hour, price.term, price.market) for price in prices] == [
        ("Vast.ai", 2.0, "on_demand", "marketplace"),
        ("Google Cloud", 3.75, "spot", "hyperscaler"),
        ("AWS", 6.88, "on_demand", "hyperscaler"),
    ]
    assert [price.provider for price in rl.live_prices("h100-nvl")] == ["runpod"]
    assert [price.accelerators for price in rl.live_prices("a100-sxm-40gb")] == [8]
    assert {price.source for price in prices} == {"live catalog of gpuhunt"}


def test_live_prices_without_the_extra_or_the_network(monkeypatch):
    monkeypatch.setitem(sys.modules, "gpuhunt", None)
    with pytest.raises(rl.InvalidInput, match=r"pip install 'roofline\[prices\]'"):
        rl.live_prices("h100-sxm")

    class Offline:
        def query(self, **asked):
            raise OSError("no route to host\nsecond line")

    monkeypatch.setitem(sys.modules, "gpuhunt", Offline())
    with pytest.raises(rl.InvalidInput, match=r"can't be read \(OSError: no route to host\)$"):
        rl.live_prices("h100-sxm")
