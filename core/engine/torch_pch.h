#ifndef ACCEL_CORE_ENGINE_TORCH_PCH_H_
#define ACCEL_CORE_ENGINE_TORCH_PCH_H_

// The one precompiled header: parsing LibTorch takes most of a source file's compile time. Not
// torch/torch.h: it makes every file twice as slow as this, which holds what most files need.
#include <torch/nn/module.h>

#endif  // ACCEL_CORE_ENGINE_TORCH_PCH_H_
