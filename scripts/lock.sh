#!/bin/sh
# Writes requirements/*.lock from requirements/*.in, for Python 3.10 to 3.13. Needs uv (pip install uv).
# What depends on the accelerator (nvidia-*, cuda-*, triton) is left out: torch's own metadata names it exactly, so
# one lock serves machines with a GPU and without. Extra arguments go to uv, for instance --upgrade.
set -eu
cd "$(dirname "$0")/../requirements"

accelerator="$(for name in cuda-bindings cuda-pathfinder cuda-toolkit triton nvidia-cublas nvidia-cuda-cupti \
    nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand \
    nvidia-cusolver nvidia-cusparse nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvjitlink \
    nvidia-nvshmem-cu13 nvidia-nvtx; do echo "--no-emit-package $name"; done)"

lock() {
    name=$1
    shift
    # shellcheck disable=SC2086
    uv pip compile --quiet --universal --python-version 3.10 --no-header --no-annotate --override overrides.txt \
        $accelerator "$@" --output-file "$name.lock" "$name.in"
    echo "$name.lock: $(wc -l < "$name.lock") packages"
}

lock base "$@"
lock test --constraint base.lock "$@"
lock ros --constraint base.lock --constraint test.lock "$@"
lock build "$@"
