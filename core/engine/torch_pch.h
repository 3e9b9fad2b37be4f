#ifndef ACCEL_CORE_ENGINE_TORCH_PCH_H_
#define ACCEL_CORE_ENGINE_TORCH_PCH_H_

// The one precompiled header: parsing LibTorch takes most of a source file's compile time.
#include <torch/torch.h>

#endif  // ACCEL_CORE_ENGINE_TORCH_PCH_H_
