"""The sizes of the examples as data: as they occur in practice, and a tiny twin for tests.

Sizes are by index name, or by name for a `const` integer. `below` bounds integer operands for data
drawn at random: an extent by its index name, or a number; the values are 0, 1, ... below it.
Every output of a tiny twin has at least 64 elements, enough to judge its error as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Example:
    """One operator: `examples/<name>.tc` and `examples/<name>.py`."""

    name: str
    sizes: Mapping[str, int]
    tiny: Mapping[str, int]
    below: Mapping[str, str | int] = field(default_factory=dict[str, str | int])


_HEADS = dict(b=4, h=32, m=4096, n=4096, d=128, e=128)
_FEW = dict(b=2, h=4, m=8, n=10, d=8, e=3)
_ONE = dict(h=16, m=8192, n=8192, d=128, e=128)
_SOME = dict(h=2, m=9, n=9, d=4, e=5)

EXAMPLES = (
    Example("gemm", dict(m=4096, n=4096, k=4096), dict(m=8, n=9, k=7)),
    Example("batched_gemm", dict(b=64, m=512, n=512, k=64), dict(b=3, m=5, n=5, k=9)),
    Example(
        "grouped_gemm",
        dict(t=4096, e=64, s=8, k=2048, n=1408),
        dict(t=8, e=3, s=2, k=5, n=9),
        {"pick": "e"},
    ),
    Example("attention", _HEADS, _FEW),
    Example("causal_attention", _HEADS, _FEW),
    Example("grouped_query_attention", dict(_HEADS, g=8), dict(_FEW, g=2)),
    Example("window_attention", dict(_ONE, w=1024), dict(_SOME, w=3)),
    Example("softcap_attention", _ONE, _SOME),
    Example("softmax", dict(t=8192, i=4096), dict(t=4, i=17)),
    Example("rms_norm", dict(t=8192, i=4096), dict(t=4, i=17)),
    Example("layer_norm", dict(t=8192, i=4096), dict(t=4, i=17)),
    Example("cross_entropy", dict(t=4096, v=128256, d=4096), dict(t=64, v=11, d=5), {"label": "v"}),
    Example(
        "conv2d",
        dict(n=32, c=256, h=56, w=56, o=512, r=3, s=3),
        dict(n=2, c=3, h=6, w=7, o=4, r=3, s=3),
    ),
    Example(
        "maxsim",
        dict(q=32, d=1000, i=32, j=180, k=128),
        dict(q=8, d=9, i=2, j=5, k=4),
        {"len": "j"},
    ),
    Example("tropical", dict(i=2048, j=2048, k=2048), dict(i=8, j=9, k=7)),
    Example("transitive_closure", dict(n=2048), dict(n=9)),
    Example(
        "embedding", dict(v=50257, d=4096, b=8, t=2048), dict(v=13, d=9, b=2, t=4), {"tok": "v"}
    ),
    Example("rope", dict(t=8192, h=32, d=128), dict(t=5, h=2, d=8)),
    Example(
        "mla_decode",
        dict(b=64, h=128, t=8192, r=512, e=64),
        dict(b=2, h=7, t=9, r=5, e=4),
        {"len": "t"},
    ),
    Example(
        "tt_linear",
        dict(n=4096, i=16, j=16, k=16, a=16, b=16, c=16, r=16, s=16),
        dict(n=3, i=2, j=3, k=2, a=3, b=2, c=5, r=2, s=3),
    ),
    Example("cg_product", dict(e=100_000, c=64, i=9, j=9, k=9), dict(e=4, c=5, i=9, j=9, k=9)),
    Example("int4_gemm", dict(m=4096, n=4096, k=4096), dict(m=8, n=9, k=7)),
)
