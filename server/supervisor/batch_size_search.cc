#include "server/supervisor/batch_size_search.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace accel::supervisor {

using accel::v1::Failure;

namespace {

constexpr double kDefaultFactor = 0.9;

}  // namespace

BatchSizeSearch::BatchSizeSearch(const accel::v1::JobSpec& spec) {
  sizes_.push_back({.batch_size = spec.data().batch_size(), .steps_done = 0});
  if (!spec.loop().has_find_executable_batch_size()) return;
  const auto& search = spec.loop().find_executable_batch_size();
  factor_ = search.has_reduce_factor() ? search.reduce_factor() : kDefaultFactor;
}

bool BatchSizeSearch::Reduce(const Failure& failure, int64_t steps_done) {
  sizes_.back().steps_done = steps_done;
  if (!active() || failure.cause() != Failure::OUT_OF_MEMORY) return false;
  const int next = static_cast<int>(batch_size() * *factor_);
  if (next == 0) {
    used_up_ = true;
    return false;
  }
  sizes_.push_back({.batch_size = next, .steps_done = 0});
  return true;
}

Failure BatchSizeSearch::Explain(Failure failure) const {
  if (!used_up_) return failure;
  std::string text =
      absl::StrCat("no executable batch size found, reached zero; tried ",
                   absl::StrJoin(sizes_, " ", [](std::string* out, const Size& size) {
                     absl::StrAppend(out, size.batch_size);
                   }));
  const auto trained =
      std::max_element(sizes_.begin(), sizes_.end(),
                       [](const Size& a, const Size& b) { return a.steps_done < b.steps_done; });
  if (trained->steps_done == 0) {
    absl::StrAppend(&text, "; never fitted: none trained a step");
  } else {
    absl::StrAppend(&text, "; failed later: ", trained->batch_size, " trained ",
                    trained->steps_done, trained->steps_done == 1 ? " step" : " steps",
                    " before it ran out of memory");
  }
  failure.set_message(absl::StrCat(text, "; last: ", failure.message()));
  return failure;
}

}  // namespace accel::supervisor
