"""A tiny random model in llama.cpp's file format, GGUF, that any llama.cpp runs in milliseconds."""

import importlib
from pathlib import Path
from typing import Any, Final

WIDTH: Final = 64
HEADS: Final = 4
LAYERS: Final = 2
CONTEXT: Final = 32_768
"""Tokens; the vocabulary is bytes, of which a judge's prompt has some thousand."""

LEANINGS: Final = {b'"': 6.0, b"]": 5.0, b"}": 4.0}
"""What the model would rather say than anything else, so that what it begins comes to an end.

Random weights alone repeat themselves for ever inside a text, where a grammar lets them.
"""


def write_tiny_model(path: Path) -> Path:
    """Write the model and return the path: a Llama of two layers with a vocabulary of bytes."""
    gguf: Any = importlib.import_module("gguf")  # where the optional packages are
    np: Any = importlib.import_module("numpy")
    random = np.random.default_rng(0)
    tokens = [b"<unk>", b"<s>", b"</s>", *(f"<0x{byte:02X}>".encode() for byte in range(256))]
    kinds = [gguf.TokenType.UNKNOWN, *[gguf.TokenType.CONTROL] * 2, *[gguf.TokenType.BYTE] * 256]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(2 * WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)

    def weights(*shape: int) -> Any:
        return (random.standard_normal(shape) * 0.02).astype(np.float32)

    ones = np.ones(WIDTH, np.float32)
    # The first number of every embedding is large and stays so, whatever the layers add: the output
    # weights that meet it are what the model leans to.
    embedding, output = weights(len(tokens), WIDTH), weights(len(tokens), WIDTH)
    embedding[:, 0] = 5.0
    for said, leaning in LEANINGS.items():
        output[3 + said[0], 0] = leaning
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output_norm.weight", ones)
    writer.add_tensor("output.weight", output)
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        writer.add_tensor(f"{block}attn_norm.weight", ones)
        writer.add_tensor(f"{block}ffn_norm.weight", ones)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"{block}{name}.weight", weights(WIDTH, WIDTH))
        writer.add_tensor(f"{block}ffn_gate.weight", weights(2 * WIDTH, WIDTH))
        writer.add_tensor(f"{block}ffn_up.weight", weights(2 * WIDTH, WIDTH))
        writer.add_tensor(f"{block}ffn_down.weight", weights(WIDTH, 2 * WIDTH))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
