#ifndef ACCEL_CORE_ENGINE_MODEL_GPT_H_
#define ACCEL_CORE_ENGINE_MODEL_GPT_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "accel/v1/model.pb.h"
#include "core/engine/model/model.h"

namespace accel::engine {

// See accel.v1.Gpt. Input int64 [n, length], length <= context length; output [n, length,
// vocab_size]. Parameters are drawn in the order in which they are registered, each once. The
// layers that Hugging Face calls Conv1D keep its layout: weight [in, out]. The output layer uses
// `transformer.wte.weight` and has no entry of its own.
absl::StatusOr<std::shared_ptr<Model>> BuildGpt(const accel::v1::Gpt& spec,
                                                int64_t default_context_length);

// Defaults of accel.v1.Gpt.
int64_t VocabSize(const accel::v1::Gpt& spec);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_MODEL_GPT_H_
