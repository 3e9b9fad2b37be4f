#ifndef ACCEL_CORE_TRACKING_COMET_MESSAGES_H_
#define ACCEL_CORE_TRACKING_COMET_MESSAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "core/tracking/omissions.h"
#include "core/tracking/tracker.h"
#include "nlohmann/json.hpp"

namespace accel::tracking::comet {

// What comet_ml.start is told. Empty fields are left to the service.
struct ExperimentOptions {
  enum class Mode { kCreate, kGet, kGetOrCreate };

  // 32 to 50 letters and digits, the same in every process that feeds the job's run.
  std::string key;
  // Whether the job's spec chose the key.
  bool key_is_given = false;
  std::string project;
  std::string workspace;
  std::string name;
  std::vector<std::string> tags;
  Mode mode = Mode::kGetOrCreate;
};

// A value of a metric as Comet holds it.
struct Metric {
  std::string name;
  double value = 0;
  std::optional<int64_t> step;
  int64_t time_ms = 0;
};

// What rows are to Comet, as Accelerate logs them: a number is a metric; a map is a metric for each
// of its names, the map's own key being lost; a text is another value, without its step.
struct Messages {
  std::vector<Metric> metrics;
  std::vector<std::pair<std::string, std::string>> others;
};
void AddMessages(const LogCall& call, Messages* messages, Omissions* omissions);

// Milliseconds since 1970.
int64_t Milliseconds(absl::Time time);

}  // namespace accel::tracking::comet

#endif  // ACCEL_CORE_TRACKING_COMET_MESSAGES_H_
