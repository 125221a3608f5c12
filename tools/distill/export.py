# SPDX-License-Identifier: Apache-2.0
"""From a student's checkpoint to a GGUF file with the target's tokenizer."""
import gguf
import numpy as np

from llama import field, load_checkpoint


def copy_tokenizer(reader, writer):
    """Every tokenizer.* entry as it is: a draft is only usable with the target's own vocabulary."""
    for name, f in reader.fields.items():
        if not name.startswith("tokenizer."):
            continue
        sub = f.types[1] if f.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, f.contents(), f.types[0], sub)


def export(args):
    """Writes args.out: matrices F16 (or F32), norms F32."""
    student = load_checkpoint(args.student)
    c = student.config
    reader = gguf.GGUFReader(args.target)
    tokens = len(field(reader, "tokenizer.ggml.tokens"))
    if tokens != c.vocab:
        raise ValueError(f"{args.target} has {tokens} tokens, the student {c.vocab}: pass the "
                         "target that it was trained on")
    writer = gguf.GGUFWriter(args.out, "llama")
    writer.add_name(args.name or f"{field(reader, 'general.name', 'target')} draft")
    writer.add_description("Distilled draft for speculative decoding")
    license_field = reader.get_field("general.license")
    if license_field:
        writer.add_license(license_field.contents())
    writer.add_block_count(c.layers)
    writer.add_context_length(c.context)
    writer.add_embedding_length(c.width)
    writer.add_feed_forward_length(c.ff)
    writer.add_head_count(c.heads)
    writer.add_head_count_kv(c.kv_heads)
    writer.add_rope_freq_base(c.rope_base)
    writer.add_rope_dimension_count(c.head_dim)
    writer.add_layer_norm_rms_eps(c.eps)
    writer.add_vocab_size(c.vocab)
    half = args.type == "f16"
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16 if half else gguf.LlamaFileType.ALL_F32)
    copy_tokenizer(reader, writer)
    parameters = 0
    for name, p in student.named_parameters():
        data = p.detach().cpu().numpy()
        parameters += data.size
        writer.add_tensor(name + ".weight", data.astype(np.float16 if half and data.ndim > 1
                                                        else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{args.out}: {parameters / 1e6:.1f} M parameters, {c.layers} layers of {c.width}")
