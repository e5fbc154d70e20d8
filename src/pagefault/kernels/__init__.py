"""Triton device code and nothing else; `pagefault.attention` launches it.

One source runs on the GPU and, under ``TRITON_INTERPRET=1``, on the CPU.

- `schedule`: how the work of a ragged batch is cut into equal shares, on the device.
- `tiles`: what the attention kernels do with a tile: find its tokens, shape its logits, close the softmax.
- `decode_heads`, `decode_head`: decode attention, several or one KV head a program.
- `combine`: merges the pieces of a sequence that several programs worked on.
- `prefill`: chunks of queries over their paged context, causal.
- `prefill_hopper`, `prefill_schedule`: the same for Hopper GPUs in Gluon, warps with a job each.
- `append`, `copy`: new tokens into their slots; frames to frames.
- `floor`: reads the same bytes and computes nothing: the floor of a measurement.
"""
