"""Variants: checkpoints that have the shapes of another model and differ from it in a known way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..model import Model
from .names import plain_name, spoken, words_of


@dataclass(frozen=True)
class Variant:
    """A checkpoint with the layers of another one.

    Attributes
    ----------
    name : str
        Its name.
    title : str
        Its name as people write it.
    max_context_tokens : int, optional
        Longest context, if it differs.
    vocab : int, optional
        Rows of the embedding and of lm_head, if they differ.
    without : tuple of str
        Parts beside the language model that the checkpoint lacks.
    note : str
        What is not known about it, or how it differs otherwise.
    source : str
        Document that states the difference.
    repository : str
        Hub id of the checkpoint, if the source links to it.
    """

    name: str
    title: str = ""
    max_context_tokens: int | None = None
    vocab: int | None = None
    without: tuple[str, ...] = ()
    note: str = ""
    source: str = ""
    repository: str = ""

    def of(self, model: Model) -> Model:
        """Return the model of this checkpoint, with notes on what was taken over and what differs."""
        notes = [f"{self.name} has the shapes of {model.name}{self._differences}"]
        if self.note:
            notes.append(self.note)
        return model.replace(
            name=self.name,
            title=self.title or self.name,
            max_context_tokens=self.max_context_tokens or model.max_context_tokens,
            vocab=self.vocab or model.vocab,
            apart={name: count for name, count in model.apart.items() if name not in self.without},
            towers={name: tower for name, tower in model.towers.items() if name not in self.without},
            repository=self.repository or model.repository,
            assumptions=(*model.assumptions, *notes),
        )

    @property
    def _differences(self) -> str:
        found = []
        if self.max_context_tokens is not None:
            found.append(f"a context of {self.max_context_tokens:,} tokens")
        if self.vocab is not None:
            found.append(f"a vocabulary of {self.vocab:,}")
        found += [f"no {part}" for part in self.without]
        return f" and {' and '.join(found)} ({self.source})" if found else ""


def variant_called(variants: Iterable[Variant], name: str, model: str) -> Variant | None:
    """Return the variant of a model that a name means; None if it means the model itself.

    A name means the variant of whose words it has all, and most. Names of a variant that the model cannot have are also
    recognized in other spellings.

    Examples
    --------
    >>> reasoning, other = (Variant("phi-4-reasoning"),), (Variant("glm-4.6v"),)
    >>> variant_called(reasoning, "microsoft/Phi-4-reasoning-FP8", "phi-4").name
    'phi-4-reasoning'
    >>> variant_called(reasoning, "Phi-4", "phi-4"), variant_called(other, "GLM4.6V", "glm-4.5v").name
    (None, 'glm-4.6v')
    """
    asked, plain = set(words_of(name)), plain_name(name)
    words = {each: set(words_of(each.name)) for each in variants}
    meant = [each for each in words if words[each] <= asked]
    if not meant and plain != plain_name(model):
        meant = [each for each in words if spoken(each.name) == plain_name(each.name) == plain]
    return max(meant, key=lambda each: len(words[each]), default=None)
