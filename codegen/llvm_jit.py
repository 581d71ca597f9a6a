"""LLVM IR to object code for this machine or another, through llvmlite, without middle-end passes.

The emitter writes SSA form with loop-invariant code outside loops, so the middle end has nothing to
add; code generation alone takes a tenth of the time.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorc.libraries import library
from tensorc.libraries import llvm as library_llvm


@dataclass(frozen=True)
class Cpu:
    """What code is generated for, in LLVM's names."""

    triple: str
    name: str
    features: str


def native() -> Cpu:
    """This machine."""
    llvm = library_llvm()
    features = llvm.get_host_cpu_features().flatten()
    return Cpu(llvm.get_process_triple(), llvm.get_host_cpu_name(), features)


def version() -> str:
    """Of llvmlite, and of the LLVM in it."""
    parts = ".".join(str(part) for part in library_llvm().llvm_version_info)
    return f"{library('llvmlite', 'llvmlite').__version__} (LLVM {parts})"


def object_code(text: str, cpu: Cpu, optimise: int = 2) -> bytes:
    """Compile LLVM IR to an object file.

    Raises RuntimeError with LLVM's own message if the text does not parse or verify.
    """
    llvm = library_llvm()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(text)
    module.verify()
    # One target machine per compile: sharing one among modules corrupts memory.
    machine = llvm.Target.from_triple(cpu.triple).create_target_machine(
        cpu=cpu.name, features=cpu.features, opt=optimise, jit=True, reloc="pic"
    )
    module.triple = cpu.triple
    module.data_layout = str(machine.target_data)
    return machine.emit_object(module)


def assembly(text: str, cpu: Cpu, optimise: int = 2) -> str:
    """The same as assembly text, for people."""
    llvm = library_llvm()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(text)
    machine = llvm.Target.from_triple(cpu.triple).create_target_machine(
        cpu=cpu.name, features=cpu.features, opt=optimise
    )
    module.triple = cpu.triple
    module.data_layout = str(machine.target_data)
    return machine.emit_assembly(module)
