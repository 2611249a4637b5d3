"""Families of text encoders: how each differs from BERT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class EncoderFamily(NamedTuple):
    """Differences between encoder families.

    Attributes
    ----------
    prefix : str
        Prefix of the class names.
    pooler : bool
        Whether the plain model has a pooler.
    offset : bool
        Whether the position table has unused rows up to that of the padding token.
    token_types : int
        Default number of segment types; 0 if the family has none.
    gated : bool
        Whether MLPs have a gate; gate and up then have no biases.
    biased : bool
        Whether the matrices of attention, and of MLPs without a gate, have biases.
    down_bias : bool
        Whether the last matrix of a gated MLP has a bias nevertheless.
    embedding_norm, last_norm : bool
        Whether there is a norm after the tables, and one after the layers.
    positions : bool
        Whether there is a position table by default.
    narrow : bool
        Whether tables may be narrower than the layers (``embedding_size``).
    tables : tuple of str
        Fields with the number of rows of relative-position tables.
    inner : str
        Field name of the inner width of MLPs.
    """

    prefix: str
    pooler: bool = True
    offset: bool = False
    token_types: int = 0
    gated: bool = False
    biased: bool = True
    down_bias: bool = True
    embedding_norm: bool = True
    last_norm: bool = False
    positions: bool = True
    narrow: bool = False
    tables: tuple[str, ...] = ()
    inner: str = "intermediate_size"


BERT = EncoderFamily("Bert", token_types=2)
GTE = EncoderFamily("Gte", pooler=False, token_types=2, gated=True, positions=False)
NOMIC = EncoderFamily(
    "NomicBert", pooler=False, token_types=2, gated=True, biased=False, down_bias=False, positions=False
)
ENCODERS: Mapping[str, EncoderFamily] = {
    "bert": BERT,
    "ernie": BERT._replace(prefix="Ernie"),
    "megatron-bert": BERT._replace(prefix="MegatronBert", embedding_norm=False, last_norm=True),
    "roberta": EncoderFamily("Roberta", offset=True, token_types=2),
    "xlm-roberta": EncoderFamily("XLMRoberta", offset=True, token_types=2),
    "xlm-roberta-xl": EncoderFamily("XLMRobertaXL", offset=True, token_types=1, embedding_norm=False, last_norm=True),
    "camembert": EncoderFamily("Camembert", offset=True, token_types=2),
    "data2vec-text": EncoderFamily("Data2VecText", offset=True, token_types=2),
    "roberta-prelayernorm": EncoderFamily("RobertaPreLayerNorm", offset=True, token_types=2, last_norm=True),
    "jina_embeddings_v3": EncoderFamily("JinaEmbeddingsV3", token_types=1, positions=False),
    "mpnet": EncoderFamily("MPNet", offset=True, tables=("relative_attention_num_buckets",)),
    "distilbert": EncoderFamily("DistilBert", pooler=False, inner="hidden_dim"),
    "albert": EncoderFamily("Albert", token_types=2, narrow=True),
    "electra": EncoderFamily("Electra", pooler=False, token_types=2, narrow=True),
    "deberta": EncoderFamily("Deberta", pooler=False, narrow=True),
    "deberta-v2": EncoderFamily("DebertaV2", pooler=False, narrow=True),
    "nomic_bert": NOMIC,
    "gte": GTE,
    "new": GTE._replace(prefix="New"),
    "modernbert": EncoderFamily("ModernBert", pooler=False, gated=True),
    "clip_text_model": EncoderFamily("CLIPText", pooler=False, embedding_norm=False, last_norm=True),
    "siglip_text_model": EncoderFamily("SiglipText", pooler=False, embedding_norm=False, last_norm=True),
}
"""``model_type`` -> family."""

JINA_BERT = BERT._replace(prefix="JinaBert", gated=True, positions=False)
"""Jina's version 2 embedders have the ``model_type`` ``bert``, but ALiBi instead of positions, and gated MLPs."""

OTHER_ENCODERS = frozenset(
    {
        *("big_bird", "bert-generation", "convbert", "esm", "esmc", "flaubert", "fnet", "funnel", "ibert", "layoutlm"),
        *("layoutlmv2", "layoutlmv3", "lilt", "longformer", "luke", "markuplm", "mobilebert", "mra", "nystromformer"),
        *("rembert", "roc_bert", "roformer", "squeezebert", "tapas", "xlm", "xlnet", "xmod", "yoso", "canine", "dpr"),
        *("perceiver", "reformer", "splinter", "ernie_m", "visual_bert", "lxmert", "neomme"),
    }
)
"""``model_type`` of unsupported encoders, whose layers differ from BERT's."""


def encoder_family(data: Mapping[str, Any]) -> EncoderFamily | None:
    """Family of an encoder; None if the ``config.json`` is not that of a supported encoder."""
    classes = data.get("architectures")
    named = str(classes[0]) if isinstance(classes, list) and classes else ""
    if named.startswith("JinaBert"):
        return JINA_BERT
    return ENCODERS.get(str(data.get("model_type")))
