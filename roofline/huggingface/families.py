"""Families: how each ``model_type`` differs from the convention.

The convention is Llama: RMS norms before attention and before a gated MLP, grouped-query attention, no biases unless
``attention_bias`` or ``mlp_bias`` is set, one embedding and one lm_head.  A row states differences that the fields
of a configuration do not show.  Everything else is read from the fields.  Sources: the model cards and papers of the
families, and their modules in transformers 5.24.0, where each row can be checked.
"""

from __future__ import annotations

from dataclasses import replace

from . import family_changes as changes
from .family import Family

LLAMA = Family()
SLIDING = Family(all_sliding=True)
QWEN2 = Family(qkv_bias=True, output_bias=False, mlp_bias=False, window_flag="use_sliding_window")
QWEN3 = Family(qk_norm="head", window_flag="use_sliding_window")
QWEN3_NEXT = Family(qk_norm="head", gate="value", gate_bias=True, linear="gated_delta_net", period=4, shared_gate=True)
GLM4 = Family(output_bias=False, norms=4)
GLM4_MOE = Family(uneven_heads=True, output_bias=False, qk_norm="head", qk_norm_flag="use_qk_norm")
GPT2 = Family(
    norm="layer", gated=False, qkv_bias=True, output_bias=True, mlp_bias=True, positions=0, four_h=True, tied=True
)
GPT_J = Family(
    norm="layer",
    norms=1,
    gated=False,
    qkv_bias=False,
    output_bias=False,
    mlp_bias=True,
    lm_head_bias=True,
    four_h=True,
    parallel=True,
)
GEMMA2 = Family(norms=4, period=2, tied=True)
GEMMA3 = replace(GEMMA2, period=6, qk_norm="head")
COHERE = Family(norm="layer_weight", norms=1, parallel=True, qk_norm="width", qk_norm_flag="use_qk_norm", tied=True)
COHERE2 = Family(norm="layer_weight", norms=1, parallel=True, period=4, tied=True)
OLMO2 = Family(qk_norm="width")
MLA = Family(attention="mla")
DSA = Family(attention="mla", mlp_bias=False)
ERNIE = Family(qkv_bias="use_bias", output_bias="use_bias", mlp_bias="use_bias", tied=True)
APERTUS = Family(gated=False, qk_norm="head", change_layer=changes.apertus)
GRANITE_SWA = Family(sinks="all", period=4, first_full=True)
INKLING2 = Family(gate="value", embedding_norm=True, period=6, change_layer=changes.inkling2_norms)
MUSE = Family(norms=4, gate="value", period=4)

FAMILIES: dict[str, Family] = {
    # Llama and models with exactly its layout
    **dict.fromkeys(
        [
            "llama",
            "yi",
            "aquila",
            "internlm3",
            "exaone",
            "granite",
            "granitemoe",
            "granitemoeshared",
            "smollm3",
            "aria_text",
            "iquestcoder",
            "eurobert",
            "granite_docling_text",
            "granite4_vision_text",
            "unlimited_ocr_text",
            "emu3_text_model",
            "minicpm",
            "dots_ocr",
            "deepseek_ocr2_text",
            "deepseek",
            "solar",
            "telechat3",
            "nanbeige",
        ],
        LLAMA,
    ),
    **dict.fromkeys(["mistral", "mixtral", "ministral3", "phi3", "phi4_multimodal"], SLIDING),
    "ministral": SLIDING,
    "voxtral_realtime_text": replace(SLIDING, change_layer=changes.voxtral_realtime),
    "phimoe": replace(SLIDING, norm="layer"),
    "cwm": Family(period=4, first_full=True, qkv_bias=False, output_bias=False),
    "hyperclovax": Family(extra_norms_flag="use_post_norm"),
    **dict.fromkeys(["solar_open", "helium"], Family(output_bias=False)),
    "seed_oss": Family(output_bias="attention_out_bias"),
    "bitnet": Family(change_layer=changes.bitnet),
    "diffllama": Family(change_layer=changes.diffllama),
    "arcee": Family(gated=False),
    "arctic": Family(change_layer=changes.arctic),
    "apertus": APERTUS,
    "apertus1p5_text": APERTUS,
    "cosmos3_edge_text": Family(gated=False),
    "orion": Family(norm="layer"),
    "internlm2": Family(qkv_bias="bias", output_bias="bias"),
    "PanguEmbedded": Family(qkv_bias="bias", output_bias="bias"),
    "nanochat": Family(gated=False, norm="none"),
    "olmo": Family(norm="none"),
    "olmo2": OLMO2,
    "olmo3": replace(OLMO2, period=4),
    "olmoe": OLMO2,
    "flex_olmo": OLMO2,
    "olmo_hybrid": replace(OLMO2, linear="gated_delta_net", period=4),
    "minimax_m2": replace(OLMO2, qkv_bias=False, output_bias=False),
    "minimax": Family(linear="lightning", all_sliding=True),
    "minimax_m3_vl_text": Family(qk_norm="head"),
    # GPT-2 and its contemporaries
    "gpt2": GPT2,
    "gpt-sw3": GPT2,
    "gpt_bigcode": GPT2,
    "gpt_neo": replace(GPT2, qkv_bias=False),
    "openai-gpt": replace(GPT2, change_model=changes.openai_gpt),
    "biogpt": replace(GPT2, positions=2),
    "xglm": replace(GPT2, positions=None),
    "opt": replace(GPT2, qkv_bias="enable_bias", output_bias="enable_bias", mlp_bias="enable_bias", positions=2),
    "bloom": replace(GPT2, positions=None, embedding_norm=True),
    "gptj": GPT_J,
    "codegen": GPT_J,
    "gpt_neox": Family(norm="layer", gated=False, mlp_bias=True, four_h=True, parallel="use_parallel_residual"),
    "grok-1": Family(norms=4, change_layer=changes.grok),
    "dbrx": Family(norm="layer_weight", qkv_bias=False, output_bias=False, mlp_bias=False),
    "chatglm": Family(qkv_bias="add_qkv_bias", output_bias="add_bias_linear", mlp_bias="add_bias_linear"),
    "qwen": Family(halved=True, qkv_bias=True, output_bias=False),
    "bailing_moe": Family(qkv_bias="use_qkv_bias", output_bias="use_bias", qk_norm="head", qk_norm_flag="use_qk_norm"),
    "bailing_moe_v2": Family(
        qkv_bias="use_qkv_bias", output_bias="use_bias", qk_norm="head", qk_norm_flag="use_qk_norm"
    ),
    "mpt": Family(
        norm="layer_weight", gated=False, qkv_bias=False, output_bias=False, mlp_bias=False, four_h=True, tied=True
    ),
    "falcon": Family(
        norm="layer",
        gated=False,
        qkv_bias="bias",
        output_bias="bias",
        mlp_bias="bias",
        parallel="parallel_attn",
        four_h=True,
        tied=True,
        change_layer=changes.falcon,
    ),
    "phi": Family(
        norm="layer",
        norms=1,
        parallel=True,
        gated=False,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        lm_head_bias=True,
        qk_norm="head_bias",
        qk_norm_flag="qk_layernorm",
        four_h=True,
    ),
    "persimmon": Family(
        norm="layer",
        gated=False,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        qk_norm="head_bias",
        qk_norm_flag="qk_layernorm",
    ),
    "stablelm": Family(
        norm="layer",
        qkv_bias="use_qkv_bias",
        output_bias=False,
        mlp_bias=False,
        parallel="use_parallel_residual",
        qk_norm="width",
        qk_norm_flag="qk_layernorm",
        change_layer=changes.stablelm,
    ),
    "starcoder2": Family(
        norm="layer", gated=False, qkv_bias="use_bias", output_bias="use_bias", mlp_bias="use_bias", all_sliding=True
    ),
    "nemotron": Family(norm="layer", gated=False),
    "jais2": Family(norm="layer", gated=False),
    # Qwen
    **dict.fromkeys(["qwen2", "qwen2_vl_text", "qwen2_5_vl_text", "qwen2_5_omni_text"], QWEN2),
    "qwen2_moe": replace(QWEN2, qkv_bias="qkv_bias", shared_gate=True),
    **dict.fromkeys(["qwen3", "qwen3_vl_text", "qwen3_vl_moe_text", "qwen3_moe"], QWEN3),
    "qwen3_omni_moe_text": replace(QWEN3, uneven_heads=True),
    **dict.fromkeys(["qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"], QWEN3_NEXT),
    "lara_mini": replace(QWEN3_NEXT, gate="", shared_gate=False),
    # Gemma
    "gemma": Family(tied=True),
    "gemma2": GEMMA2,
    "vaultgemma": replace(GEMMA2, norms=2),
    "gemma3_text": GEMMA3,
    "gemma3n_text": replace(GEMMA3, period=5),
    "gemma4_text": GEMMA3,
    "gemma4_unified_text": GEMMA3,
    "recurrent_gemma": Family(
        halved=True,
        linear="rg_lru",
        qkv_bias="attention_bias",
        output_bias=True,
        mlp_bias=True,
        all_sliding=True,
        tied=True,
    ),
    # Cohere, EXAONE, Granite, ERNIE, LFM and others
    "cohere": COHERE,
    "cohere2": COHERE2,
    "cohere2_moe": replace(COHERE2, all_sliding=False),
    "exaone4": Family(qk_norm="head", period=4),
    "exaone_moe": Family(qk_norm="head", period=4, dense_layers=1),
    "granite_swa": GRANITE_SWA,
    "granitemoe_swa": GRANITE_SWA,
    "ernie4_5": ERNIE,
    "paddleocr_vl_text": ERNIE,
    "ernie4_5_moe": replace(ERNIE, router_bias=True, lm_head_bias="use_bias"),
    "ernie4_5_vl_moe_text": replace(ERNIE, router_bias=True),
    "lfm2": Family(qk_norm="head", linear="short_convolution", mlp_bias=False, tied=True),
    "lfm2_moe": Family(qk_norm="head", linear="short_convolution", mlp_bias=False, tied=True),
    "lfm3": Family(
        qk_norm="head",
        linear="short_convolution",
        extra_norms_flag="use_sandwich_norm",
        gate="head",
        gate_flag="use_attention_gate",
        tied=True,
    ),
    "afmoe": Family(qk_norm="head", gate="value", norms=4, router_bias=True, dense_layers=1, period=4),
    "hunyuan_v1_dense": Family(qk_norm="head"),
    "hunyuan_v1_moe": Family(qk_norm="head", shared_expert=True),
    "hunyuan_vl_text": Family(qk_norm="head"),
    "hunyuan": Family(qk_norm="head", qk_norm_flag="use_qk_norm", shared_expert=True),
    "step3_text": Family(dense_layers=4),
    "hy_v3": Family(qk_norm="head", dense_layers=1),
    "kolibri1": Family(qk_norm="head", norms=4, period=5),
    "mellum": Family(qk_norm="head"),
    "dots1": Family(qk_norm="head"),
    "beam": Family(qk_norm="head", gate="value", norms=4, period=6, dense_layers=3, change_layer=changes.beam),
    "flint": Family(qk_norm="head", sinks="all"),
    "laguna": Family(
        qk_norm="head", gate="head", gate_flag="gating", router_bias=True, dense_layers=1, change_layer=changes.laguna
    ),
    "molmo2_text": Family(qk_norm="head"),
    "muse_glimmer_text": MUSE,
    "step3p5": Family(qk_norm="head", gate="head", dense_layers=3),
    "mimo_v2_flash": Family(sinks="sliding", output_bias=False, period=6, dense_layers=1, change_layer=changes.mimo_v2),
    "gpt_oss": Family(sinks="all", period=2, router_bias=True, mlp_bias=True, change_layer=changes.gpt_oss),
    "llama4_text": Family(shared_expert=True, period=4),
    "mllama_text_model": Family(change_model=changes.mllama_embedding),
    "nemotron-nas": LLAMA,
    # GLM
    "glm": Family(output_bias=False),
    "glm4": GLM4,
    "glm4v_text": replace(GLM4, qkv_bias=True),
    "glm_ocr_text": replace(GLM4, qkv_bias=False),
    **dict.fromkeys(["glm4_moe", "glm4v_moe_text", "sarvam_moe"], GLM4_MOE),
    # Latent attention
    **dict.fromkeys(["deepseek_v2", "deepseek_v3", "kimi_k2", "minicpm3", "youtu", "sarvam_mla", "mistral4"], MLA),
    "glm4_moe_lite": replace(MLA, dense_layers=1),
    "deepseek_v32": replace(DSA, dense_layers=3),
    "glm_moe_dsa": replace(DSA, dense_layers=3),
    "hy_v4": replace(DSA, dense_layers=1, sinks="all", gate="value"),
    "hy_v4_vl_text": replace(DSA, dense_layers=1, sinks="all", gate="value"),
    "glm5_next_text": replace(DSA, dense_layers=3, linear="kda", change_model=changes.glm5_next),
    "kimi_linear": replace(MLA, linear="kda", dense_layers=1),
    "bailing_hybrid": replace(MLA, linear="kda", gate="head", dense_layers=2, change_layer=changes.bailing_hybrid),
    "bailing_moe_v2_5": replace(MLA, linear="simple_gla"),
    "mistral_large4_text": replace(
        DSA, dense_layers=1, change_layer=changes.mistral_large4, change_model=changes.lerope
    ),
    "axk1": replace(MLA, dense_layers=1, change_layer=changes.axk1),
    "deepseek_v4": Family(attention="compressed"),
    # State space and hybrids
    "mamba": Family(linear="mamba", norms=1, tied=True),
    "falcon_mamba": Family(linear="mamba", norms=1, tied=True),
    "mamba2": Family(linear="mamba2", norms=1, change_layer=changes.mamba2),
    "jamba": Family(linear="mamba", change_layer=changes.jamba),
    "bamba": Family(linear="mamba2"),
    "falcon_h1": Family(linear="mamba2", hybrid="parallel"),
    "granitemoehybrid": Family(linear="mamba2"),
    "nemotron_h": Family(linear="mamba2", gated=False, norms=1),
    "zamba": Family(linear="mamba", hybrid="shared", norms=1, tied=True),
    "zamba2": Family(linear="mamba2", hybrid="shared", norms=1, tied=True),
    "rwkv": Family(linear="rwkv", norm="layer", embedding_norm=True),
    "xlstm": Family(linear="matrix_lstm"),
    # Other designs
    "doge": Family(qk_norm="head", norms=4, all_sliding=True, change_layer=changes.doge),
    "axk2": replace(DSA, dense_layers=1, change_layer=changes.axk2),
    "dots3_note_text": replace(MLA, mlp_bias=False, dense_layers=1, gate="head", change_layer=changes.dots3_note),
    "longcat_flash": MLA,
    "longcat_flash_ngram": replace(MLA, change_model=changes.ngrams),
    "inkling2_text": replace(INKLING2, change_model=changes.inkling2),
    "inkling2_loop_text": replace(INKLING2, change_layer=changes.inkling2_loop, change_model=changes.inkling2_loops),
    "inkling_text": Family(qk_norm="head", embedding_norm=True, change_layer=changes.inkling),
    "zaya": Family(tied=True, change_layer=changes.zaya, change_model=changes.zaya_embedding),
    "hrm_text": Family(gate="value", gate_bias=True, norm="none", change_model=changes.hrm),
    "muse_spark_text": Family(norms=5, gate="value", change_layer=changes.muse_spark),
    "gpt_neox_japanese": Family(
        norm="layer",
        gated=False,
        qkv_bias=False,
        output_bias=False,
        mlp_bias=False,
        tied=True,
        change_layer=changes.gpt_neox_japanese,
    ),
    # Unsupported families
    "jetmoe": Family(attention="mixture", tied=True, change_layer=changes.jetmoe),
    **dict.fromkeys(
        ["gemma4_assistant", "gemma4_unified_assistant"],
        Family(unknown="the layers of the target model that it reads"),
    ),
    "dory": Family(unknown="its recurrent loops of layers"),
    "blt": Family(unknown="its byte patches: encoder, decoder and patcher"),
    "qwen4_exp_text": Family(unknown="its residual blocks and n-gram embeddings"),
}
"""``model_type`` -> its differences."""

ALIASES: dict[str, str] = {
    "code_llama": "llama",
    "ernie4_5_moe_vl": "ernie4_5_vl_moe_text",
    "kimi_vl": "deepseek_v3",
    "llama_bidirec": "llama",
    "mistral_bidirec": "mistral",
    "kimi_k2": "deepseek_v3",
    "glm4v": "glm4v_text",
    "baichuan": "llama",
    "stablelm_epoch": "stablelm",
    "minimax_text_01": "minimax",
    "mimo": "qwen2",
    "RefinedWeb": "falcon",
    "RefinedWebModel": "falcon",
    "phi-msft": "phi",
    "phi3_v": "phi3",
    "mixformer-sequential": "phi",
    "gpt_sw3": "gpt2",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "exaone4_5_text": "exaone4",
    "gemma4": "gemma4_text",
    "llama4": "llama4_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen2_vl": "qwen2_vl_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "minimax_m3": "minimax_m3_vl_text",
    "step3p7": "step3p5",
    "step3p7_text": "step3p5",
    "mimo_v2": "mimo_v2_flash",
}
"""Other ``model_type`` values of a family, or of wrappers with text fields at the top level."""
