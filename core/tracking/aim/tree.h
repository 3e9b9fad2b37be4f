#ifndef ACCEL_CORE_TRACKING_AIM_TREE_H_
#define ACCEL_CORE_TRACKING_AIM_TREE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace accel::tracking::aim {

// How Aim's server and its clients send values: a flat sequence of pairs, the path of a leaf and
// the leaf, each with its length. Map keys are texts without NUL bytes; in what is decoded, integer
// keys become their decimal digits. Bytes have no place here.

std::string EncodeTree(const nlohmann::json& value);

// DATA_LOSS for what is no tree.
absl::StatusOr<nlohmann::json> DecodeTree(absl::string_view bytes);

// `key` as a part of a path can hold it: well-formed, without NUL bytes, "_" for an empty one.
std::string PathKey(absl::string_view key);

// The key under which the point of a step lies: Aim's hash of the integer, 0 <= step <= 2^60.
int64_t StepKey(int64_t step);

}  // namespace accel::tracking::aim

#endif  // ACCEL_CORE_TRACKING_AIM_TREE_H_
