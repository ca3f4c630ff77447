"""Makes the models that the end-to-end tests serve, without downloading anything.

    python make_model.py DIR

writes, below DIR,
    tiny/   2 layers of 128: fast enough for tests, on one core
    slow/   8 layers of 512: a prompt takes seconds, so that a probe can watch it
    lora-a/, lora-b/   two adapters of tiny whose weights are zero

The weights are random from a fixed seed, so every instance of the fleet gives
the same (meaningless) answers. The tokenizer is trained on the documentation
that ships with Python and on JSON made here: it must cut English and JSON into
words, since the tests compare what we predict with what the engine caches.
"""

import json
import os
import random
import sys
from pydoc_data.topics import topics

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 6000
CONTEXT = 16384
# ids 0, 1, 2 ...: config.json names some of them by number.
SPECIAL = ["<pad>", "<bos>", "<eos>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>"]
# Not special: a tool or reasoning parser has to see these in the text.
MARKS = ["<tool_call>", "</tool_call>", "<think>", "</think>"]

SHAPES = {
    "tiny": dict(hidden=128, intermediate=256, layers=2, heads=4, kv_heads=4, head_dim=32),
    "slow": dict(hidden=512, intermediate=1408, layers=8, heads=8, kv_heads=4, head_dim=64),
}

# System text first, then the tools (as Qwen2.5 and Qwen3 do), one block a
# message (newlines by expression, since vLLM renders with trim_blocks), arguments as the engine parsed them, and the ids of calls and results
# printed, so that any change of an id is seen. Reasoning is kept in every turn.
CHAT_TEMPLATE = r"""
{%- if messages and messages[0].role in ['system', 'developer'] -%}
{{ '<|system|>' + messages[0].content + '<|end|>\n' }}
{%- set rest = messages[1:] -%}
{%- else -%}
{%- set rest = messages -%}
{%- endif -%}
{%- if tools -%}
{{ '<|system|>You may call these functions:\n' }}
{%- for tool in tools -%}
{{ tool | tojson + '\n' }}
{%- endfor -%}
{{ '<|end|>\n' }}
{%- endif -%}
{%- if documents -%}
{{ '<|system|>Documents:\n' }}
{%- for document in documents -%}
{{ document | tojson + '\n' }}
{%- endfor -%}
{{ '<|end|>\n' }}
{%- endif -%}
{%- for message in rest -%}
{%- if message.role == 'assistant' -%}
{{ '<|assistant|>' }}
{%- if message.reasoning -%}
{{ '<think>' + message.reasoning + '</think>\n' }}
{%- endif -%}
{%- if message.content -%}
{{ message.content }}
{%- endif -%}
{%- for call in message.tool_calls or [] -%}
{{ '<tool_call>{"id": ' + call.id | tojson + ', "name": ' + call.function.name | tojson + ', "arguments": ' + call.function.arguments | tojson + '}</tool_call>\n' }}
{%- endfor -%}
{{ '<|end|>\n' }}
{%- elif message.role == 'tool' -%}
{{ '<|tool|>' + message.tool_call_id + '\n' + message.content + '<|end|>\n' }}
{%- elif message.role in ['system', 'developer'] -%}
{{ '<|system|>' + message.content + '<|end|>\n' }}
{%- else -%}
{{ '<|user|>' + message.content + '<|end|>\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|assistant|>' }}
{%- if enable_thinking is defined and enable_thinking -%}
{{ '<think>' }}
{%- endif -%}
{%- endif -%}
"""


def training_text():
    yield from topics.values()
    rng = random.Random(1)
    words = sorted({w for t in topics.values() for w in t.split() if w.isalpha()})
    keys = ["type", "function", "name", "description", "parameters", "properties", "required",
            "string", "integer", "boolean", "array", "object", "items", "enum", "path", "query",
            "role", "user", "assistant", "content", "tool_calls", "arguments", "id", "result"]
    for _ in range(3000):
        value = {k: rng.choice([rng.choice(words), rng.randrange(10000), True, None,
                                " ".join(rng.choices(words, k=6)), [rng.choice(keys)]])
                 for k in rng.sample(keys, 6)}
        yield json.dumps(value)


def write_tokenizer(directory):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(training_text(), trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(MARKS), special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_tokens([AddedToken(m, normalized=False) for m in MARKS])
    assert tokenizer.get_vocab_size() == VOCABULARY, tokenizer.get_vocab_size()
    tokenizer.save(os.path.join(directory, "tokenizer.json"))
    write_json(directory, "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": CONTEXT,
        "pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>",
        "additional_special_tokens": SPECIAL[3:], "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE.strip()})


def write_json(directory, name, value):
    with open(os.path.join(directory, name), "w") as file:
        json.dump(value, file, indent=1)


def write_model(directory, hidden, intermediate, layers, heads, kv_heads, head_dim):
    os.makedirs(directory, exist_ok=True)
    write_tokenizer(directory)
    write_json(directory, "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0})
    write_json(directory, "config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim,
        "vocab_size": VOCABULARY, "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2,
        "pad_token_id": 0, "tie_word_embeddings": False})
    rng = np.random.default_rng(7)

    def matrix(rows, columns):
        return (rng.standard_normal((rows, columns), dtype=np.float32) / np.float32(np.sqrt(columns)))

    def ones():
        return np.ones(hidden, np.float32)

    weights = {"model.embed_tokens.weight": matrix(VOCABULARY, hidden), "model.norm.weight": ones(),
               "lm_head.weight": matrix(VOCABULARY, hidden)}
    for i in range(layers):
        at = f"model.layers.{i}."
        weights |= {
            at + "input_layernorm.weight": ones(), at + "post_attention_layernorm.weight": ones(),
            at + "self_attn.q_proj.weight": matrix(heads * head_dim, hidden),
            at + "self_attn.k_proj.weight": matrix(kv_heads * head_dim, hidden),
            at + "self_attn.v_proj.weight": matrix(kv_heads * head_dim, hidden),
            at + "self_attn.o_proj.weight": matrix(hidden, heads * head_dim),
            at + "mlp.gate_proj.weight": matrix(intermediate, hidden),
            at + "mlp.up_proj.weight": matrix(intermediate, hidden),
            at + "mlp.down_proj.weight": matrix(hidden, intermediate)}
    save_file(weights, os.path.join(directory, "model.safetensors"), metadata={"format": "pt"})


def write_lora(directory, base, hidden, layers, heads, kv_heads, head_dim, rank=8, **_):
    os.makedirs(directory, exist_ok=True)
    write_json(directory, "adapter_config.json", {
        "peft_type": "LORA", "base_model_name_or_path": base, "task_type": "CAUSAL_LM", "r": rank,
        "lora_alpha": rank, "lora_dropout": 0.0, "bias": "none", "target_modules": ["q_proj", "v_proj"],
        "modules_to_save": None, "inference_mode": True})
    weights = {}
    for i in range(layers):
        for name, out in [("q_proj", heads * head_dim), ("v_proj", kv_heads * head_dim)]:
            at = f"base_model.model.model.layers.{i}.self_attn.{name}."
            weights[at + "lora_A.weight"] = np.zeros((rank, hidden), np.float32)
            weights[at + "lora_B.weight"] = np.zeros((out, rank), np.float32)
    save_file(weights, os.path.join(directory, "adapter_model.safetensors"), metadata={"format": "pt"})


def main():
    root = sys.argv[1]
    for name, shape in SHAPES.items():
        write_model(os.path.join(root, name), **shape)
    for name in ["lora-a", "lora-b"]:
        write_lora(os.path.join(root, name), "tiny", **SHAPES["tiny"])


if __name__ == "__main__":
    main()
