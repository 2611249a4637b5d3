"""Schema of the files of ``engine_specs/``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from ..errors import InvalidInput
from ..units import to_base
from .engine_settings import FIELDS, EngineFacts, Rule
from .schema import Source, Strict


class Size(Strict):
    """An amount of device memory."""

    value: float = Field(gt=0, allow_inf_nan=False)
    unit: str


class Setting(Strict):
    """A default of the engine, and the conditions under which it applies.

    The first setting of a field whose conditions are met is used.
    """

    value: bool | int | float | str
    unit: str = ""
    source: str
    kind: Literal["quoted", "derived", "measured"] = "quoted"
    printed: str = ""
    note: str = ""
    before: str = ""
    from_memory: Size | None = None
    not_on: tuple[str, ...] = Field(default=(), strict=False)


class EngineSpec(Strict):
    """One file of ``engine_specs/``."""

    name: str
    """The name of the file without its suffix."""
    title: str
    """Name of the engine as its makers write it."""
    kernels: str = ""
    """Profile in ``efficiency_specs`` for its kernels; empty for the median of all."""
    like: str = ""
    """Engine whose settings are used where this one has none."""
    aliases: tuple[str, ...] = Field(default=(), strict=False)
    """Other names."""
    sources: dict[str, Source] = Field(min_length=1)
    """Documents from which settings are quoted, by short name."""
    settings: dict[str, Setting | list[Setting]] = Field(min_length=1)
    """Setting of the engine -> default, or several with conditions, of which the first that applies is used."""

    @field_validator("settings")
    @classmethod
    def _known_fields(cls, settings: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Check that every field exists, its values have the right type, and its sources are listed."""
        sources = info.data.get("sources", {})
        wrong: list[str] = []
        for name, value in settings.items():
            if name not in FIELDS:
                wrong.append(f"settings.{name} is not a setting of an engine; known: {', '.join(FIELDS)}")
                continue
            for item in _listed(value):
                if sources and item.source not in sources:
                    wrong.append(f"settings.{name}: source {item.source!r} is not among {', '.join(sources)}")
                try:
                    FIELDS[name].check(name, _base(name, item))
                except (InvalidInput, LookupError) as error:
                    wrong.append(f"settings.{error}")
        if wrong:
            raise InvalidInput("; ".join(wrong))
        return settings

    def build(self) -> EngineFacts:
        """The engine's defaults in base units, each with its source."""
        rules = {}
        for name, value in self.settings.items():
            rules[name] = tuple(self._rule(name, item) for item in _listed(value))
        return EngineFacts(self.name, self.title, self.kernels, self.like, rules, self.aliases)

    def _rule(self, name: str, item: Setting) -> Rule:
        source = self.sources[item.source]
        size = item.from_memory
        return Rule(
            value=_base(name, item),
            source=f"{source.title} {source.url}".strip(),
            kind=item.kind,
            before=item.before,
            from_memory_bytes=to_base(size.value, size.unit, "bytes", field=f"{name}.from_memory") if size else 0.0,
            not_on=item.not_on,
        )


def _listed(value: Setting | list[Setting]) -> list[Setting]:
    return value if isinstance(value, list) else [value]


def _base(name: str, item: Setting) -> bool | int | float | str:
    """The value in base units; times and sizes must have units (except the bytes per logit)."""
    quantity = next((suffix for suffix in ("bytes", "s") if name.endswith(f"_{suffix}")), None)
    if quantity is None or (quantity == "bytes" and not item.unit):
        return item.value
    if isinstance(item.value, bool | str):
        raise InvalidInput(f"{name} must be a number of {quantity}: {item.value!r}")
    return to_base(float(item.value), item.unit, quantity, field=name)
