"""CUDA sources compiled once: images by source, architecture and compiler, in the cache."""

from __future__ import annotations


def image_of(source: str, arch: str, kind: str = "cubin") -> bytes:
    """A cubin, or PTX text, from the cache or compiled and kept there.

    `arch`: such as "sm_90a". Unavailable: there is no compiler here. BrokenInvariant: the source
    does not compile.
    """
    from tensorc.codegen.cuda_build import build, headers, version
    from tensorc.runtime import cache

    key = {
        "cuda": source, "headers": "".join(headers().values()), "arch": arch, "kind": kind,
        "tool": version(),
    }  # fmt: skip
    found = cache.load(key)
    if found is not None:
        return found.code
    image = build(source, arch, kind)
    about = {"arch": arch, "tool": image.tool, "log": image.log}
    cache.store(key, cache.Stored(about, image.data))
    return image.data
