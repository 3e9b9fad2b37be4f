#include "core/tracking/omissions.h"

#include "absl/strings/str_cat.h"

namespace accel::tracking {
namespace {

constexpr size_t kMaxPairs = 1000;
constexpr char kOtherKeys[] = "further keys";

}  // namespace

void Omissions::Note(absl::string_view key, absl::string_view what) {
  auto pair = std::make_pair(std::string(key), std::string(what));
  if (counts_.size() >= kMaxPairs && counts_.count(pair) == 0) pair.first = kOtherKeys;
  if (++counts_[pair] == 1) Say(absl::StrCat(pair.first, " ", what));
}

void Omissions::SayTotals() {
  for (const auto& [pair, count] : counts_) {
    if (count > 1) Say(absl::StrCat(count, " times: ", pair.first, " ", pair.second));
  }
  counts_.clear();
}

}  // namespace accel::tracking
