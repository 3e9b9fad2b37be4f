#include "core/engine/distributed/power_sgd_state.h"

#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace accel::engine {
namespace {

constexpr uint32_t kSeedMask = (1u << 30) - 1;
constexpr uint32_t kSeedLimit = 1000000000;
constexpr char kErrorPrefix[] = "error.";
constexpr char kQPrefix[] = "q.";

}  // namespace

PowerSgdState::PowerSgdState(const Options& options, std::function<void(const std::string&)> log)
    : options_(options), log_(std::move(log)), seeds_(options.random_seed()) {}

void PowerSgdState::ForgetNonFinite() {
  for (auto& [bucket, memory] : memories_) {
    for (at::Tensor* tensor : {&memory.error, &memory.q}) {
      if (tensor->defined() && !tensor->isfinite().all().item<bool>()) *tensor = at::Tensor();
    }
  }
}

uint64_t PowerSgdState::NextSeed() {
  // numpy draws bounded integers by masking and rejecting.
  while (true) {
    ++draws_;
    const uint32_t value = seeds_() & kSeedMask;
    if (value < kSeedLimit) return value;
  }
}

void PowerSgdState::Count(int64_t before, int64_t after) {
  elements_before_ += before;
  elements_after_ += after;
}

void PowerSgdState::ReportStatistics(bool last) {
  if (!last || iteration_ < next_report_) return;
  const double rate =
      elements_after_ > 0 ? static_cast<double>(elements_before_) / elements_after_ : 0;
  log_(absl::StrCat("power_sgd: iteration ", iteration_, ", elements before compression ",
                    elements_before_, ", after compression ", elements_after_, ", rate ", rate));
  next_report_ = iteration_ + std::max(1, options_.compression_stats_logging_frequency());
}

NamedTensors PowerSgdState::Save() const {
  const auto number = [](int64_t value) { return at::scalar_tensor(value, at::kLong); };
  NamedTensors saved{{"draws", number(draws_)},
                     {"iteration", number(iteration_)},
                     {"elements_before", number(elements_before_)},
                     {"elements_after", number(elements_after_)},
                     {"next_report", number(next_report_)}};
  for (const auto& [bucket, memory] : memories_) {
    if (memory.error.defined()) {
      saved.emplace_back(absl::StrCat(kErrorPrefix, bucket), memory.error.to(at::kCPU));
    }
    if (memory.q.defined()) {
      saved.emplace_back(absl::StrCat(kQPrefix, bucket), memory.q.to(at::kCPU));
    }
  }
  return saved;
}

absl::Status PowerSgdState::Restore(const NamedTensors& saved, at::Device device) {
  int64_t draws = 0, iteration = 0, before = 0, after = 0, next_report = 0;
  std::map<std::string, int64_t*> numbers{{"draws", &draws},
                                          {"iteration", &iteration},
                                          {"elements_before", &before},
                                          {"elements_after", &after},
                                          {"next_report", &next_report}};
  std::map<size_t, Memory> memories;
  for (const auto& [name, tensor] : saved) {
    absl::string_view rest = name;
    uint64_t bucket = 0;
    const auto number = numbers.find(name);
    if (number != numbers.end() && tensor.numel() == 1) {
      *number->second = tensor.item<int64_t>();
      numbers.erase(number);
    } else if (absl::ConsumePrefix(&rest, kErrorPrefix) && absl::SimpleAtoi(rest, &bucket)) {
      memories[bucket].error = tensor.to(device);
    } else if (absl::ConsumePrefix(&rest, kQPrefix) && absl::SimpleAtoi(rest, &bucket)) {
      memories[bucket].q = tensor.to(device);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("state of the communication hook: unknown tensor ", name));
    }
  }
  if (!numbers.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("state of the communication hook: ", numbers.begin()->first, " is missing"));
  }
  if (draws < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("state of the communication hook: draws is ", draws, ", allowed: at least 0"));
  }
  seeds_.seed(options_.random_seed());
  seeds_.discard(static_cast<unsigned long long>(draws));
  draws_ = draws;
  iteration_ = iteration;
  elements_before_ = before;
  elements_after_ = after;
  next_report_ = next_report;
  memories_ = std::move(memories);
  return absl::OkStatus();
}

}  // namespace accel::engine
