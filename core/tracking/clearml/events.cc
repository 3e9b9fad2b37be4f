#include "core/tracking/clearml/events.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/utf8.h"
#include "core/tracking/json_values.h"

namespace accel::tracking::clearml {
namespace {

using accel::v1::MetricValue;
using nlohmann::json;

// Theirs, for a value without an iteration.
constexpr char kSingleValueTitle[] = "Summary";
constexpr int64_t kSingleValueIteration = std::numeric_limits<int32_t>::min();

// Title and series.
std::pair<std::string, std::string> SeriesOf(const std::string& key) {
  for (const char* series : {"eval", "test", "train"}) {
    const std::string prefix = absl::StrCat(series, "_");
    if (absl::StartsWith(key, prefix)) return {key.substr(prefix.size()), series};
  }
  return {key, "train"};
}

}  // namespace

void AddEvents(const LogCall& call, const std::string& task, json* events, Omissions* omissions) {
  // The key that gave a series its value in this row.
  std::map<std::pair<std::string, std::string>, std::string> sources;
  for (const auto& [raw_key, value] : call.values) {
    const std::string key = RepairUtf8(raw_key);
    if (value.value_case() != MetricValue::kNumber) {
      omissions->Note(key, "has a value that is no number, left out");
      continue;
    }
    if (!std::isfinite(value.number())) {
      omissions->Note(key, "is nan or infinite, which clearml has no value for, left out");
      continue;
    }
    auto series = std::make_pair(std::string(kSingleValueTitle), key);
    if (call.step.has_value()) series = SeriesOf(key);
    const auto [source, added] = sources.emplace(series, key);
    if (!added) {
      omissions->Note(key, absl::StrCat("takes the place of ", source->second, " in the series ",
                                        series.first, "/", series.second));
    }
    events->push_back({{"timestamp", absl::ToUnixMillis(call.time)},
                       {"type", "training_stats_scalar"},
                       {"task", task},
                       {"iter", call.step.value_or(kSingleValueIteration)},
                       {"metric", series.first},
                       {"variant", series.second},
                       {"value", value.number()}});
  }
}

json Configuration(const ConfigMap& values) {
  json config = json::object();
  for (const auto& [key, value] : values) config[RepairUtf8(key)] = ConfigJson(value);
  // JSON is HOCON and reads back the same.
  return {{"General", {{"name", "General"}, {"type", "dictionary"}, {"value", config.dump()}}}};
}

}  // namespace accel::tracking::clearml
