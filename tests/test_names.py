"""Names as people type them: hub ids, tags, titles, cloud instances, counts; all without the network."""

import socket

import pytest

import roofline as rl
from roofline.specs.instances import counted, list_instances

MODELS = """
meta-llama/Llama-3.1-8B -> llama-3.1-8b
meta-llama/Llama-3.1-8B-Instruct -> llama-3.1-8b
meta-llama/Meta-Llama-3.1-8B-Instruct -> llama-3.1-8b
meta-llama/Llama-3.1-70B-Instruct -> llama-3.1-70b
meta-llama/Meta-Llama-3.1-70B-Instruct -> llama-3.1-70b
meta-llama/Llama-3.1-405B-Instruct -> llama-3.1-405b
meta-llama/Llama-3.1-405B-Instruct-FP8 -> llama-3.1-405b
meta-llama/Llama-3.3-70B-Instruct -> llama-3.3-70b
meta-llama/Llama-3.2-1B-Instruct -> llama-3.2-1b
meta-llama/Llama-3.2-3B -> llama-3.2-3b
meta-llama/Llama-3.2-90B-Vision-Instruct -> llama-3.2-90b-vision
meta-llama/Meta-Llama-3-8B-Instruct -> llama-3-8b
meta-llama/Meta-Llama-3-70B-Instruct -> llama-3-70b
meta-llama/Llama-2-7b-chat-hf -> llama-2-7b
meta-llama/Llama-2-13b-chat-hf -> llama-2-13b
meta-llama/Llama-2-70b-chat-hf -> llama-2-70b
meta-llama/Llama-4-Scout-17B-16E-Instruct -> llama-4-scout
meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8 -> llama-4-maverick
unsloth/Llama-3.2-3B-Instruct-bnb-4bit -> llama-3.2-3b
unsloth/Llama-3.3-70B-Instruct-GGUF -> llama-3.3-70b
neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8 -> llama-3.1-8b
RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic -> llama-3.1-8b
RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w4a16 -> llama-3.1-70b
RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8 -> llama-3.1-8b
hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4 -> llama-3.1-70b
casperhansen/llama-3.3-70b-instruct-awq -> llama-3.3-70b
nvidia/Llama-3.1-70B-Instruct-FP8 -> llama-3.1-70b
nvidia/Llama-3.3-70B-Instruct-NVFP4 -> llama-3.3-70b
TheBloke/Llama-2-13B-chat-GPTQ -> llama-2-13b
codellama/CodeLlama-34b-Instruct-hf -> codellama-34b
Qwen/Qwen3-0.6B -> qwen3-0.6b
Qwen/Qwen3-1.7B-Base -> qwen3-1.7b
Qwen/Qwen3-4B-Instruct-2507 -> qwen3-4b-2507
Qwen/Qwen3-8B -> qwen3-8b
Qwen/Qwen3-8B-FP8 -> qwen3-8b
Qwen/Qwen3-14B-AWQ -> qwen3-14b
Qwen/Qwen3-32B -> qwen3-32b
Qwen/Qwen3-32B-FP8 -> qwen3-32b
Qwen/Qwen3-32B-AWQ -> qwen3-32b
Qwen/Qwen3-30B-A3B-Instruct-2507 -> qwen3-30b-a3b-2507
Qwen/Qwen3-30B-A3B-Thinking-2507-FP8 -> qwen3-30b-a3b-2507
Qwen/Qwen3-235B-A22B -> qwen3-235b-a22b
Qwen/Qwen3-235B-A22B-Instruct-2507 -> qwen3-235b-a22b-2507
Qwen/Qwen3-235B-A22B-Thinking-2507-FP8 -> qwen3-235b-a22b-2507
Qwen/Qwen3-Next-80B-A3B-Instruct -> qwen3-next-80b-a3b
Qwen/Qwen3-Next-80B-A3B-Thinking-FP8 -> qwen3-next-80b-a3b
Qwen/Qwen3-VL-8B-Instruct -> qwen3-vl-8b
Qwen/Qwen3-VL-30B-A3B-Instruct-FP8 -> qwen3-vl-30b-a3b
Qwen/Qwen3-VL-235B-A22B-Thinking -> qwen3-vl-235b-a22b
Qwen/Qwen3.5-27B -> qwen3.5-27b
Qwen/Qwen3.5-35B-A3B-FP8 -> qwen3.5-35b-a3b
Qwen/Qwen3.5-122B-A10B -> qwen3.5-122b-a10b
Qwen/Qwen3.5-397B-A17B-FP8 -> qwen3.5-397b-a17b
Qwen/Qwen3.6-27B -> qwen3.6-27b
Qwen/Qwen3.6-35B-A3B-FP8 -> qwen3.6-35b-a3b
Qwen/Qwen2.5-1.5B-Instruct -> qwen2.5-1.5b
Qwen/Qwen2.5-3B-Instruct -> qwen2.5-3b
Qwen/Qwen2.5-7B-Instruct -> qwen2.5-7b
Qwen/Qwen2.5-7B-Instruct-AWQ -> qwen2.5-7b
Qwen/Qwen2.5-14B-Instruct -> qwen2.5-14b
Qwen/Qwen2.5-32B-Instruct -> qwen2.5-32b
Qwen/Qwen2.5-32B-Instruct-GPTQ-Int4 -> qwen2.5-32b
Qwen/Qwen2.5-72B-Instruct -> qwen2.5-72b
Qwen/Qwen2.5-72B-Instruct-GPTQ-Int8 -> qwen2.5-72b
Qwen/Qwen2.5-Coder-7B-Instruct -> qwen2.5-7b
Qwen/Qwen2.5-Coder-32B-Instruct -> qwen2.5-coder-32b
Qwen/Qwen2-7B-Instruct -> qwen2-7b
Qwen/Qwen1.5-MoE-A2.7B-Chat -> qwen1.5-moe-a2.7b
nvidia/Qwen3-235B-A22B-NVFP4 -> qwen3-235b-a22b
mlx-community/Qwen3-8B-4bit -> qwen3-8b
deepseek-ai/DeepSeek-V3 -> deepseek-v3
deepseek-ai/DeepSeek-V3-0324 -> deepseek-v3
deepseek-ai/DeepSeek-V3.1 -> deepseek-v3.1
deepseek-ai/DeepSeek-V3.1-Terminus -> deepseek-v3.1
deepseek-ai/DeepSeek-V3.2 -> deepseek-v3.2
deepseek-ai/DeepSeek-V3.2-Exp -> deepseek-v3.2
deepseek-ai/DeepSeek-R1 -> deepseek-r1
deepseek-ai/DeepSeek-R1-0528 -> deepseek-r1
nvidia/DeepSeek-R1-NVFP4 -> deepseek-r1
deepseek-ai/DeepSeek-V2-Lite-Chat -> deepseek-v2-lite
deepseek-ai/DeepSeek-V4-Flash -> deepseek-v4-flash
deepseek-ai/DeepSeek-V4-Pro -> deepseek-v4-pro
deepseek-ai/DeepSeek-R1-Distill-Llama-8B -> llama-3.1-8b
deepseek-ai/DeepSeek-R1-Distill-Llama-70B -> llama-3.3-70b
deepseek-ai/DeepSeek-R1-Distill-Qwen-14B -> deepseek-r1-distill-qwen-14b
deepseek-ai/DeepSeek-R1-Distill-Qwen-32B -> qwen2.5-32b
moonshotai/Kimi-K2-Instruct -> kimi-k2
moonshotai/Kimi-K2-Instruct-0905 -> kimi-k2-0905
moonshotai/Kimi-K2.5 -> kimi-k2.5
openai/gpt-oss-20b -> gpt-oss-20b
openai/gpt-oss-120b -> gpt-oss-120b
unsloth/gpt-oss-20b-BF16 -> gpt-oss-20b
google/gemma-2-2b-it -> gemma-2-2b
google/gemma-2-9b-it -> gemma-2-9b
google/gemma-2-27b-it -> gemma-2-27b
google/gemma-2b-it -> gemma-2b
google/gemma-7b-it -> gemma-7b
google/gemma-3-1b-it -> gemma-3-1b
google/gemma-3-4b-it -> gemma-3-4b
google/gemma-3-12b-it -> gemma-3-12b
google/gemma-3-27b-it -> gemma-3-27b
google/gemma-4-31B-it -> gemma-4-31b
google/gemma-4-26B-A4B-it -> gemma-4-26b-a4b
google/medgemma-27b-it -> medgemma-27b
mistralai/Mistral-7B-v0.1 -> mistral-7b
mistralai/Mistral-7B-Instruct-v0.1 -> mistral-7b
mistralai/Mistral-7B-Instruct-v0.3 -> mistral-7b-v0.3
mistralai/Mixtral-8x7B-Instruct-v0.1 -> mixtral-8x7b
mistralai/Mixtral-8x22B-Instruct-v0.1 -> mixtral-8x22b
mistralai/Ministral-8B-Instruct-2410 -> ministral-8b
mistralai/Devstral-2-123B-Instruct-2512 -> devstral-2-123b
microsoft/phi-4 -> phi-4
microsoft/Phi-4-mini-instruct -> phi-4-mini
microsoft/Phi-3-mini-4k-instruct -> phi-3-mini
microsoft/Phi-3.5-mini-instruct -> phi-3.5-mini
zai-org/GLM-4.5 -> glm-4.5
zai-org/GLM-4.5-FP8 -> glm-4.5
zai-org/GLM-4.5-Air-FP8 -> glm-4.5-air
zai-org/GLM-5-FP8 -> glm-5
zai-org/GLM-5.2-FP8 -> glm-5.2
MiniMaxAI/MiniMax-M2.5 -> minimax-m2.5
MiniMaxAI/MiniMax-M2.7 -> minimax-m2.7
nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-FP8 -> nemotron-3-nano-30b-a3b
nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16 -> nemotron-3-super-120b-a12b
tiiuae/falcon-7b-instruct -> falcon-7b
tiiuae/falcon-180B -> falcon-180b
bigscience/bloom -> bloom
EleutherAI/gpt-neox-20b -> gpt-neox-20b
EleutherAI/gpt-j-6b -> gpt-j-6b
openai-community/gpt2 -> gpt-2
gpt2 -> gpt-2
CohereLabs/aya-23-8B -> aya-23-8b
CohereForAI/c4ai-command-r-v01 -> command-r-35b
ai21labs/Jamba-v0.1 -> jamba-v0.1
allenai/OLMo-2-0325-32B-Instruct -> olmo-2-32b
allenai/OLMo-2-1124-7B-Instruct -> olmo-2-7b
HuggingFaceTB/SmolLM2-360M-Instruct -> smollm2-360m
internlm/internlm3-8b-instruct -> internlm3-8b
01-ai/Yi-1.5-6B-Chat -> yi-1.5-6b
alpindale/WizardLM-2-8x22B -> wizardlm-2-8x22b
llama3:8b -> llama-3-8b
llama3.1:8b -> llama-3.1-8b
llama3.1:70b-instruct-q4_K_M -> llama-3.1-70b
llama3.3 -> llama-3.3-70b
llama3.3:70b -> llama-3.3-70b
qwen2.5:7b -> qwen2.5-7b
qwen3:30b-a3b -> qwen3-30b-a3b
gemma3:27b -> gemma-3-27b
mistral:7b -> mistral-7b
mixtral:8x7b -> mixtral-8x7b
deepseek-r1:671b -> deepseek-r1
gpt-oss:20b -> gpt-oss-20b
phi4 -> phi-4
Llama 3.1 70B -> llama-3.1-70b
Llama-3-70B -> llama-3-70b
llama 70b -> llama-3.3-70b
Qwen3 235B-A22B -> qwen3-235b-a22b
DeepSeek V3 -> deepseek-v3
Gemma 3 27B -> gemma-3-27b
Mixtral 8x7B -> mixtral-8x7b
GPT-OSS 120B -> gpt-oss-120b
Kimi K2 -> kimi-k2
Qwen/QwQ-32B -> qwq-32b
Qwen/QwQ-32B-AWQ -> qwq-32b
microsoft/Phi-3.5-MoE-instruct -> phi-3.5-moe
mistralai/Mistral-Nemo-Instruct-2407 -> mistral-nemo
mistralai/Mistral-Nemo-Base-2407 -> mistral-nemo
mistralai/Mistral-Large-Instruct-2407 -> mistral-large-2
mistralai/Pixtral-12B-2409 -> pixtral-12b
01-ai/Yi-34B-Chat -> yi-34b
ByteDance-Seed/Seed-OSS-36B-Instruct -> seed-oss-36b
moonshotai/Kimi-K2-Thinking -> kimi-k2-thinking
moonshotai/Kimi-K2.6 -> kimi-k2.6
zai-org/GLM-4.7-FP8 -> glm-4.7
zai-org/GLM-4.6 -> glm-4.7
zai-org/GLM-4.7-Flash -> glm-4.7-flash
deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B -> deepseek-r1-distill-qwen-1.5b
deepseek-ai/DeepSeek-R1-Distill-Qwen-7B -> deepseek-r1-distill-qwen-7b
deepseek-ai/DeepSeek-V2-Chat -> deepseek-v2
deepseek-ai/DeepSeek-V2.5 -> deepseek-v2
baidu/ERNIE-4.5-300B-A47B-PT -> ernie-4.5-300b-a47b
baidu/ERNIE-4.5-0.3B-Base-PT -> ernie-4.5-0.3b
inclusionAI/Ling-1T -> ling-1t
inclusionAI/Ring-1T -> ling-1t
inclusionAI/Ling-mini-2.0 -> ling-mini-2.0
meta-llama/Llama-3.2-11B-Vision-Instruct -> llama-3.2-11b-vision
nvidia/Llama-3_3-Nemotron-Super-49B-v1 -> nemotron-super-49b
nvidia/Llama-3.1-Nemotron-70B-Instruct-HF -> llama-3.1-70b
nvidia/Llama-3.1-Nemotron-Nano-4B-v1.1 -> nemotron-nano-4b
mistralai/Mistral-Small-Instruct-2409 -> codestral-22b
mistralai/Mistral-Small-24B-Instruct-2501 -> mistral-small-3-24b
mistralai/Mistral-Large-Instruct-2411 -> mistral-large-2
TechxGenus/Mistral-Large-Instruct-2411-AWQ -> mistral-large-2
mistral-large-2512 -> mistral-large-3-675b
mistralai/Mistral-7B-Instruct-v0.2 -> mistral-7b-v0.2
TheBloke/Mistral-7B-Instruct-v0.2-AWQ -> mistral-7b-v0.2
CohereLabs/c4ai-command-r-08-2024 -> command-r-08-2024
CohereLabs/aya-expanse-32b -> command-r-08-2024
qwen3:30b -> qwen3-30b-a3b
qwen3:235b -> qwen3-235b-a22b
gemma4:26b -> gemma-4-26b-a4b
qwq -> qwq-32b
tinyllama -> tinyllama-1.1b
qwen2.5:0.5b -> qwen2-0.5b
llama3.2-vision:11b -> llama-3.2-11b-vision
deepseek-r1:70b -> llama-3.3-70b
deepseek-r1:8b -> deepseek-r1-8b
deepseek-coder-v2:16b -> deepseek-v2-lite
gemma3:27b-it-qat -> gemma-3-27b
google/gemma-3-27b-it-qat-q4_0-gguf -> gemma-3-27b
mlx-community/gemma-3-27b-it-qat-4bit -> gemma-3-27b
amd/Llama-3.1-405B-Instruct-FP8-KV -> llama-3.1-405b
microsoft/Phi-3-mini-128k-instruct -> phi-3-mini-128k
microsoft/Phi-3-medium-128k-instruct -> phi-3-medium
Qwen/Qwen2.5-7B-Instruct-1M -> qwen2.5-7b
01-ai/Yi-34B-200K -> yi-34b
openai/gpt-oss-safeguard-20b -> gpt-oss-20b
openai/whisper-small -> whisper-small
google-bert/bert-base-uncased -> bert-base
sentence-transformers/all-mpnet-base-v2 -> all-mpnet-base-v2
BAAI/bge-small-en-v1.5 -> bge-small-en-v1.5
Snowflake/snowflake-arctic-embed-l-v2.0 -> bge-m3
nomic-ai/nomic-embed-text-v1.5 -> nomic-embed-text-v1.5
jinaai/jina-embeddings-v3 -> jina-embeddings-v3
mixedbread-ai/mxbai-embed-large-v1 -> bge-large-en-v1.5
microsoft/deberta-v3-large -> deberta-v3-large
facebook/bart-large-cnn -> bart-large-cnn
facebook/nllb-200-3.3B -> nllb-200-3.3b
google/flan-t5-xxl -> flan-t5-xxl
stepfun-ai/step3 -> step3
tencent/Tencent-Hunyuan-Large -> hunyuan-large
OpenGVLab/InternVL3-8B -> internvl3-8b
moonshotai/Kimi-VL-A3B-Instruct -> kimi-vl-a3b
openbmb/MiniCPM-V-2_6 -> minicpm-v-2.6
Qwen/Qwen2-72B-Instruct -> qwen2-72b
Qwen/Qwen2.5-VL-3B-Instruct -> qwen2.5-vl-3b
Qwen/Qwen2-VL-2B-Instruct-AWQ -> qwen2-vl-2b
Qwen/Qwen3-Embedding-4B -> qwen3-embedding-4b
Qwen/Qwen3.5-0.8B -> qwen3.5-0.8b
Qwen/Qwen1.5-7B-Chat -> qwen1.5-7b
stepfun-ai/Step-3.7-Flash-FP8 -> step-3.7-flash
ai21labs/AI21-Jamba-1.5-Large -> jamba-1.5-large
rednote-hilab/dots.llm1.inst -> dots.llm1
openbmb/MiniCPM4-8B -> minicpm4-8b
huggyllama/llama-7b -> llama-7b
Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8 -> qwen3-coder-480b-a35b
Qwen/Qwen3-Coder-30B-A3B-Instruct -> qwen3-coder-30b-a3b
qwen3-coder -> qwen3-coder-480b-a35b
qwen3-coder:30b -> qwen3-coder-30b-a3b
Qwen/Qwen3.5-9B -> qwen3.5-9b
mistralai/Mistral-Large-3-675B-Instruct-2512 -> mistral-large-3-675b
mistralai/Mistral-Large-3-675B-Instruct-2512-NVFP4 -> mistral-large-3-675b
Mistral Large 3 -> mistral-large-3-675b
mistralai/Mistral-Medium-3.5-128B -> mistral-medium-3.5-128b
mistralai/Mistral-Small-24B-Instruct-2501 -> mistral-small-3-24b
mistralai/Mistral-Small-3.1-24B-Instruct-2503 -> mistral-small-3.1-24b
mistralai/Mistral-Small-3.2-24B-Instruct-2506 -> mistral-small-3.1-24b
mistralai/Magistral-Small-2509 -> mistral-small-3.1-24b
mistralai/Mistral-Small-4-119B-2603 -> mistral-small-4-119b
mistralai/Ministral-3-8B-Instruct-2512 -> ministral-3-8b
mistralai/Ministral-3-8B-Instruct-2512-BF16 -> ministral-3-8b
mistralai/Ministral-3-8B-Reasoning-2512 -> ministral-3-8b-reasoning
mistralai/Ministral-3-14B-Base-2512 -> ministral-3-14b-reasoning
mistralai/Devstral-Small-2507 -> devstral-small-24b
mistralai/Devstral-Small-2-24B-Instruct-2512 -> devstral-small-2-24b
ibm-granite/granite-4.0-h-small -> granite-4.0-h-small
ibm-granite/granite-4.0-h-tiny-base -> granite-4.0-h-tiny
ibm-granite/granite-4.0-micro -> granite-4.0-micro
allenai/Olmo-3-7B-Instruct -> olmo-3-7b
allenai/Olmo-3.1-32B-Instruct -> olmo-3-32b
allenai/Olmo-3-32B-Think -> olmo-3-32b
CohereLabs/c4ai-command-a-03-2025 -> command-a-111b
command-a -> command-a-111b
xai-org/grok-1 -> grok-1
xai-org/grok-2 -> grok-2
databricks/dbrx-instruct -> dbrx
databricks/dbrx-base -> dbrx
google/gemma-3n-E2B-it -> gemma-3n-e2b
gemma3n:e4b -> gemma-3n-e4b
meituan-longcat/LongCat-Flash-Chat-FP8 -> longcat-flash
XiaomiMiMo/MiMo-V2-Flash -> mimo-v2-flash
tencent/Hunyuan-A13B-Instruct-FP8 -> hunyuan-a13b
tencent/Hunyuan-7B-Instruct -> hunyuan-7b
tiiuae/Falcon-H1-34B-Instruct -> falcon-h1-34b
tiiuae/Falcon-H1-3B-Instruct -> falcon-h1-3b
LGAI-EXAONE/EXAONE-4.0-32B-FP8 -> exaone-4.0-32b
LGAI-EXAONE/EXAONE-3.5-7.8B-Instruct-AWQ -> exaone-3.5-7.8b
HuggingFaceTB/SmolLM3-3B -> smollm3-3b
LiquidAI/LFM2-1.2B -> lfm2-1.2b
LiquidAI/LFM2-8B-A1B -> lfm2-8b-a1b
baidu/ERNIE-4.5-21B-A3B-Thinking -> ernie-4.5-21b-a3b
inclusionAI/Ring-flash-2.0 -> ling-flash-2.0
stepfun-ai/Step-3.5-Flash-FP8 -> step-3.5-flash
MiniMaxAI/MiniMax-M2 -> minimax-m2.5
MiniMaxAI/MiniMax-M2.1 -> minimax-m2.5
Qwen/Qwen3-Coder-Next -> qwen3-next-80b-a3b
Qwen/Qwen3.5-4B -> qwen3.5-4b
Qwen/Qwen2.5-VL-7B-Instruct-AWQ -> qwen2.5-vl-7b
Qwen/Qwen3-Embedding-0.6B -> qwen3-embedding-0.6b
CohereLabs/c4ai-command-r7b-12-2024 -> command-r7b
LiquidAI/LFM2-24B-A2B -> lfm2-24b-a2b
ibm-granite/granite-3.3-8b-instruct -> granite-3.3-8b
arcee-ai/Trinity-Mini -> trinity-mini
swiss-ai/Apertus-70B-Instruct-2509 -> apertus-70b
LGAI-EXAONE/EXAONE-4.5-33B -> exaone-4.5-33b
moonshotai/Moonlight-16B-A3B-Instruct -> moonlight-16b-a3b
moonshotai/Kimi-Linear-48B-A3B-Instruct -> kimi-linear-48b-a3b
zai-org/GLM-4-9B-0414 -> glm-4-9b-0414
TinyLlama/TinyLlama-1.1B-Chat-v1.0 -> tinyllama-1.1b
codellama/CodeLlama-13b-hf -> codellama-13b
bigcode/starcoder2-7b -> starcoder2-7b
upstage/Solar-Open-100B -> solar-open-100b
JetBrains/Mellum2-12B-A2.5B-Base -> mellum2-12b-a2.5b
poolside/Laguna-XS.2 -> laguna-xs.2
tencent/Hy3-preview -> hy3-preview
skt/A.X-K1 -> a.x-k1
inclusionAI/Ling-3.0-flash -> ling-3.0-flash
inclusionAI/Ling-2.6-flash -> ling-2.6-flash
mistralai/Codestral-22B-v0.1 -> codestral-22b
LiquidAI/LFM2-2.6B -> lfm2-2.6b
zai-org/GLM-4-32B-0414 -> glm-4-32b-0414
THUDM/GLM-Z1-32B-0414 -> glm-4-32b-0414
Qwen/Qwen2.5-VL-72B-Instruct -> qwen2.5-vl-72b
Qwen/Qwen2-VL-7B-Instruct -> qwen2-vl-7b
CohereLabs/c4ai-command-r-plus -> command-r-plus-104b
MiniMaxAI/MiniMax-Text-01 -> minimax-text-01
MiniMaxAI/MiniMax-M1-80k -> minimax-text-01
LGAI-EXAONE/K-EXAONE-236B-A23B -> k-exaone-236b-a23b
nvidia/NVIDIA-Nemotron-Nano-9B-v2 -> nemotron-nano-9b-v2
nvidia/NVIDIA-Nemotron-Nano-12B-v2-Base -> nemotron-nano-12b-v2
Qwen/Qwen3-VL-2B-Thinking -> qwen3-vl-2b
microsoft/phi-2 -> phi-2
allenai/OLMo-2-1124-13B-Instruct -> olmo-2-13b
allenai/OLMoE-1B-7B-0125-Instruct -> olmoe-1b-7b
Snowflake/snowflake-arctic-instruct -> snowflake-arctic
zai-org/GLM-4.5V-FP8 -> glm-4.5v
bigcode/starcoder2-15b -> starcoder2-15b
XiaomiMiMo/MiMo-V2.5-Pro -> mimo-v2.5-pro-1t
NousResearch/Hermes-4-405B -> llama-3.1-405b
NousResearch/Hermes-4-70B -> llama-3.1-70b
meta-llama/Llama-Guard-3-8B -> llama-3.1-8b
lmsys/vicuna-7b-v1.5 -> llama-2-7b
lmsys/vicuna-13b-v1.5 -> llama-2-13b
HuggingFaceH4/zephyr-7b-beta -> mistral-7b
moonshotai/Kimi-Dev-72B -> qwen2.5-72b
deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct -> deepseek-v2-lite
deepseek-ai/DeepSeek-Coder-V2-Instruct-0724 -> deepseek-v2
ai21labs/AI21-Jamba-1.5-Mini -> jamba-v0.1
nvidia/Llama-3_3-Nemotron-Super-49B-v1_5 -> nemotron-super-49b
facebook/opt-1.3b -> opt-1.3b
facebook/opt-66b -> opt-66b
ibm-granite/granite-3.3-2b-instruct -> granite-3.3-2b
deepseek-ai/deepseek-coder-33b-base -> deepseek-coder-33b
deepseek-ai/deepseek-coder-6.7b-instruct -> deepseek-coder-6.7b
huggyllama/llama-13b -> llama-13b
huggyllama/llama-65b -> llama-65b
HuggingFaceTB/SmolLM2-1.7B-Instruct -> smollm2-1.7b
tiiuae/falcon-40b-instruct -> falcon-40b
google/gemma-4-E2B-it -> gemma-4-e2b
google/gemma-4-E4B-it -> gemma-4-e4b
"""
NAMED = [tuple(line.split(" -> ")) for line in MODELS.strip().splitlines()]


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Whoever asks the network fails the test."""

    def refused(*args, **kwargs):
        raise AssertionError("a known name asks the network")

    monkeypatch.setattr(socket, "create_connection", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)


@pytest.mark.parametrize(("typed", "name"), NAMED)
def test_a_model_is_found_by_the_names_that_people_type(typed, name):
    assert rl.get_model(typed).name == name


def test_the_list_of_names_is_long():
    assert len({typed for typed, _ in NAMED}) >= 120


@pytest.mark.parametrize(
    ("typed", "weights", "activations"),
    [
        ("Qwen/Qwen3-32B", None, None),
        ("Qwen/Qwen3-32B-FP8", "fp8", "fp8"),
        ("Qwen/Qwen3-32B-AWQ", "int4_g128", "bf16"),
        ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4", "int4_g128", "bf16"),
        ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int8", "int8_g128", "bf16"),
        ("mlx-community/Qwen3-8B-4bit", "affine4_g64", "bf16"),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w4a16", "int4_g128_sym", "bf16"),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "int8", "int8"),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "fp8", "fp8"),
        ("nvidia/Llama-3.3-70B-Instruct-NVFP4", "nvfp4", "nvfp4"),
        ("unsloth/Llama-3.2-3B-Instruct-bnb-4bit", "nf4", "bf16"),
        ("llama3.1:70b-instruct-q4_K_M", "q4_k_m", "bf16"),
        ("unsloth/gpt-oss-20b-BF16", "bf16", "bf16"),
        ("openai/gpt-oss-20b", "mxfp4", "bf16"),
        ("unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL", "q4_k_m", "bf16"),
        ("mlx-community/Qwen3-8B-6bit", "affine6_g64", "bf16"),
        ("mlx-community/Qwen3-8B-MLX-4bit-gs32", "affine4_g32", "bf16"),
        ("Qwen3-8B 4-bit", "affine4_g64", "bf16"),
        ("RedHatAI/Qwen3-8B-NVFP4A16", "nvfp4", "bf16"),
        ("nm-testing/Qwen3-8B-W4A16-G64", "int4_g64_sym", "bf16"),
        ("Qwen3-8B-W4AFP8", "int4_g128_sym", "fp8"),
        ("turboderp/Llama-3.1-8B-Instruct-4.5bpw-h6-exl3", "exl3_4.5", "bf16"),
        ("pytorch/Phi-4-mini-instruct-8da4w", "affine4_g32", "int8"),
        ("Llama-3.1-8B-Instruct-SmoothQuant", "int8", "int8"),
        ("amd/Llama-3.3-70B-Instruct-MXFP4-Preview", "mxfp4", "mxfp4"),
        ("unsloth/Qwen3-30B-A3B-GGUF:MXFP4_MOE", "mxfp4", "bf16"),
        ("unsloth/gpt-oss-120b-GGUF:F16", "mxfp4", "bf16"),
        ("unsloth/Qwen3-8B-GGUF:IQ2_M", "iq2_m", "bf16"),
        ("unsloth/Qwen3-8B-GGUF:Q3_K_M", "q3_k_m", "bf16"),
        ("unsloth/Qwen3-8B-GGUF:Q6_K_L", "q6_k", "bf16"),
        ("deepseek-ai/DeepSeek-V3", "fp8_block", "fp8"),
        ("deepseek-ai/DeepSeek-V3-FP8", "fp8_block", "fp8"),
        ("nvidia/DeepSeek-R1-NVFP4", "nvfp4", "nvfp4"),
    ],
)
def test_the_format_in_a_name_sets_the_precision(typed, weights, activations):
    """A native checkpoint keeps its own formats, exceptions included, unless the name says others."""
    precision = rl.get_model(typed).precision
    assert (precision and precision.weights) == weights
    assert (precision and precision.activations) == activations


def test_a_format_from_a_name_is_said():
    assert rl.get_model("Qwen/Qwen3-32B").assumptions == ()
    (said,) = rl.get_model("Qwen/Qwen3-32B-AWQ").assumptions
    assert said.startswith("formats by the name 'Qwen/Qwen3-32B-AWQ': every linear layer in int4_g128")


@pytest.mark.parametrize(
    ("typed", "near"),
    [("qwen3-38b", "qwen3-8b"), ("llama-3.1-7b", "llama-3.1-70b"), ("deepseek-v5", "deepseek-v3")],
)
def test_an_unknown_model_offers_the_nearest(typed, near):
    with pytest.raises(rl.UnknownName, match=f"no model named '{typed}'; did you mean .*'{near}'"):
        rl.get_model(typed)


@pytest.mark.parametrize("typed", ["a" * 300, "x/" + "b" * 300, "", " ", "-", "Instruct", "FP8", "it"])
def test_nonsense_is_one_line(typed):
    with pytest.raises(rl.RooflineError) as error:
        rl.get_model(typed)
    assert "\n" not in str(error.value)


HARDWARE = """
h100 -> h100-sxm 1
8xh100 -> h100-sxm 8
8 x H100 -> h100-sxm 8
h100:8 -> h100-sxm 8
H100 x8 -> h100-sxm 8
4xL40S -> l40s 4
2x rtx 4090 -> rtx-4090 2
rtx-4090 -> rtx-4090 1
mi300x:8 -> mi300x 8
8xA100-SXM4-80GB -> a100-sxm-80gb 8
NVIDIA H100 SXM5 80GB -> h100-sxm 1
NVIDIA GeForce RTX 5090 -> rtx-5090 1
AMD Instinct MI355X 288GB -> mi355x 1
p5.48xlarge -> h100-sxm 8
p5.4xlarge -> h100-sxm 1
p5 -> h100-sxm 1
p5e.48xlarge -> h200-sxm 8
p5en.48xlarge -> h200-sxm 8
p6-b200.48xlarge -> b200-sxm 8
p6-b300.48xlarge -> b300-sxm 8
p4d.24xlarge -> a100-sxm-40gb 8
p4de.24xlarge -> a100-sxm-80gb 8
p3.2xlarge -> v100-sxm2-16gb 1
g6e.xlarge -> l40s 1
g6e.12xlarge -> l40s 4
g6e -> l40s 1
g6.xlarge -> l4 1
g6 -> l4 1
g5.xlarge -> a10g 1
g5.12xlarge -> a10g 4
g4dn.xlarge -> t4 1
g7e.48xlarge -> rtx-pro-6000-server 8
trn1.32xlarge -> trainium1 16
trn2.48xlarge -> trainium2 16
inf2.48xlarge -> inferentia2 12
a3-highgpu-8g -> h100-sxm 8
a3-highgpu-1g -> h100-sxm 1
a3-megagpu-8g -> h100-sxm 8
a3-ultragpu-8g -> h200-sxm 8
a4-highgpu-8g -> b200-sxm 8
a2-highgpu-1g -> a100-sxm-40gb 1
a2-ultragpu-8g -> a100-sxm-80gb 8
g2-standard-4 -> l4 1
g2-standard-96 -> l4 8
ct5lp-hightpu-4t -> tpu-v5e 4
ct6e-standard-8t -> tpu-v6e 8
ND H100 v5 -> h100-sxm 8
Standard_ND96isr_H100_v5 -> h100-sxm 8
ND96isr_H100_v5 -> h100-sxm 8
ND H200 v5 -> h200-sxm 8
ND MI300X v5 -> mi300x 8
NC A100 v4 -> a100-pcie-80gb 1
Standard_NC40ads_H100_v5 -> h100-nvl 1
Standard_NC4as_T4_v3 -> t4 1
BM.GPU.H100.8 -> h100-sxm 8
BM.GPU.MI300X.8 -> mi300x 8
VM.GPU.A10.1 -> a10 1
gpu_8x_h100_sxm5 -> h100-sxm 8
gpu_1x_gh200 -> gh200-96gb 1
gpu_8x_a100_80gb_sxm4 -> a100-sxm-80gb 8
gpu_1x_h100_pcie -> h100-pcie 1
a3-mega -> h100-sxm 8
DGX H100 -> h100-sxm 8
NVIDIA DGX B200 -> b200-sxm 8
HGX A100 -> a100-sxm-80gb 8
8 H100s -> h100-sxm 8
v6e-8 -> tpu-v6e 8
v5litepod-16 -> tpu-v5e 16
v5p-8 -> tpu-v5p 4
TPU v4-8 -> tpu-v4 4
NVIDIA H20-3e -> h20-141gb 1
NVIDIA B300 SXM6 AC -> b300-sxm 1
NVIDIA Jetson AGX Orin -> jetson-agx-orin-64gb 1
GH200 144GB HBM3e -> gh200-144gb 1
Mac Studio M3 Ultra 512GB -> apple-m3-ultra 1
Mac mini M4 Pro -> apple-m4-pro 1
2x RTX 3090 24GB -> rtx-3090 2
MI300X 192GB -> mi300x 1
H100 94GB -> h100-nvl 1
H100 80GB HBM3 -> h100-sxm 1
B200 192GB -> b200-sxm 1
"""
MACHINES = [tuple(line.split(" -> ")) for line in HARDWARE.strip().splitlines()]


@pytest.mark.parametrize(("typed", "expected"), MACHINES)
def test_an_accelerator_is_found_with_its_number(typed, expected):
    name, count = expected.split()
    found = rl.get_hardware(typed)
    assert (found.accelerator.name, found.count) == (name, int(count))
    assert rl.get_accelerator(typed).name == name


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("8xa100", "'a100' is ambiguous: a100-pcie-40gb, a100-pcie-80gb, a100-sxm-40gb or a100-sxm-80gb?"),
        ("8xh101", "no accelerator named '8xh101'"),
        ("0xh100", "no accelerator named '0xh100'"),
        ("99999999xh100", "no accelerator named '99999999xh100'"),
        ("p9.48xlarge", "no accelerator named 'p9.48xlarge'"),
        ("RTX 3060 8GB", "'RTX 3060 8GB' is not in the library, only rtx-3060-12gb with 12 GB"),
        ("H100 PCIe 94GB", "'H100 PCIe 94GB' is not in the library, only h100-pcie with 80 GB"),
        ("H100 80GB HBM3 MIG 1g.10gb", "is a part of an accelerator"),
        ("MacBook Pro M4 Max", "is ambiguous: apple-m4-max-32c or apple-m4-max-40c?"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "no accelerator named"),
    ],
)
def test_a_wrong_count_or_instance_is_named(typed, said):
    with pytest.raises(rl.UnknownName, match=said):
        rl.get_hardware(typed)


@pytest.mark.parametrize("typed", ["h100", "rtx-4090", "trn1", "max-1550", "a100-80g", "mi300x"])
def test_a_name_without_a_count_has_none(typed):
    assert counted(typed) is None or rl.get_hardware(typed).count == 1


def test_every_instance_has_a_known_accelerator():
    known = set(rl.list_accelerators())
    instances = list_instances()
    assert {instance.accelerator for instance in instances} <= known
    assert len({instance.name for instance in instances}) == len(instances)
    assert {"AWS", "Azure", "Google Cloud", "Oracle Cloud", "Lambda"} <= {one.provider for one in instances}


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("awq", "int4_g128"),
        ("AWQ", "int4_g128"),
        ("gptq", "int4_g128"),
        ("w4a16", "int4_g128_sym"),
        ("w8a8", "int8"),
        ("w8a16", "int8"),
        ("bfloat16", "bf16"),
        ("fp8_e4m3", "fp8"),
    ],
)
def test_formats_have_the_names_of_schemes(alias, name):
    assert rl.formats.get_format(alias).name == name


@pytest.mark.parametrize("name", ["mistralai/Mistral-Medium-2505", "mistral-small-2402", "mistral-large-2402-AWQ"])
def test_a_date_tells_models_of_one_moving_name_apart(name):
    """Weights of these were never published; the model that has the name today is another one."""
    with pytest.raises(rl.RooflineError, match="did you mean"):
        rl.get_model(name)


@pytest.mark.parametrize("name", ["mixtral", "gpt-oss", "llama3.2", "command-r"])
def test_a_name_of_models_of_several_sizes_is_a_question(name):
    with pytest.raises(rl.UnknownName, match=r"did you mean .* or "):
        rl.get_model(name)


def test_a_repository_of_ggufs_does_not_say_its_type():
    (doubt,) = rl.get_model("bartowski/Llama-3.3-70B-Instruct-GGUF").doubts
    assert "does not say which GGUF type" in doubt
    exact = rl.get_model("bartowski/Llama-3.3-70B-Instruct-Q4_K_M-GGUF")
    assert exact.doubts == ()
    assert exact.precision is not None
    assert exact.precision.weights == "q4_k_m"


# Sizes of meta-llama/Llama-3.1-8B in GiB, from the table in llama.cpp's tools/quantize/README.md.
GGUF_GIB = {"IQ1_S": 1.87, "IQ2_XXS": 2.23, "IQ2_M": 2.74, "IQ3_XS": 3.27, "Q2_K": 2.95, "Q4_K_M": 4.58, "Q6_K": 6.14}


@pytest.mark.parametrize(("kind", "size_gib"), GGUF_GIB.items())
def test_a_gguf_has_the_size_that_llama_cpp_states(kind, size_gib):
    """A file called Q2_K has wider tensors in it, so that it is larger than all tensors in that type."""
    model = rl.get_model(f"bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:{kind}")
    assert model.weight_bytes(model.precision) / 2**30 == pytest.approx(size_gib, abs=0.01)


@pytest.mark.parametrize("name", ["ubergarm/Qwen3-30B-A3B-GGUF:IQ4_KSS", "Qwen3-8B-Q4"])
def test_a_type_of_gguf_that_is_not_known_is_a_doubt(name):
    (doubt,) = rl.get_model(name).doubts
    assert "does not say which GGUF type" in doubt


def test_a_cache_in_8_bits_is_part_of_a_name():
    precision = rl.get_model("amd/Llama-3.1-405B-Instruct-FP8-KV").precision
    assert (precision.weights, precision.kv) == ("fp8", "fp8")
