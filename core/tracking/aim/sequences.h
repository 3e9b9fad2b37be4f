#ifndef ACCEL_CORE_TRACKING_AIM_SEQUENCES_H_
#define ACCEL_CORE_TRACKING_AIM_SEQUENCES_H_

#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "core/tracking/omissions.h"
#include "core/tracking/tracker.h"
#include "nlohmann/json.hpp"

namespace accel::tracking::aim {

// The metrics of one run as Aim stores them, all in the empty context, and the instructions that
// write a point, in the order and with the fields of Aim's own client: `first`, `last`, `min` and
// `max` of each metric beside the points themselves. A point of a step that is there takes its
// place. Numbers are stored as they are, NaN and infinities too; a map becomes a metric
// `<key>/<name>` for each of its names; texts are left out.
class Sequences {
 public:
  // Handlers of the run's meta tree and of its sequences; `run` is its hash.
  Sequences(std::string run, std::string meta, std::string sequences, Omissions* omissions);

  // What the server holds: `traces` of the run as it decodes, null for none.
  void Learn(const nlohmann::json& traces);

  // Appends the instructions for a row.
  void Add(const LogCall& call, nlohmann::json* instructions);

  // The path of something in the run's meta tree.
  nlohmann::json RunPath() const;
  // Where the first part of `traces` of the run lies.
  nlohmann::json TracesPath() const;

 private:
  struct Sequence {
    // Empty before the first point.
    std::string type;
    int64_t version = 2;
    int64_t last_step = -1;
    double min = std::numeric_limits<double>::infinity();
    double max = -std::numeric_limits<double>::infinity();
  };

  void AddPoint(const std::string& key, double value, const LogCall& call,
                nlohmann::json* instructions);
  void Set(const std::string& handler, nlohmann::json path, nlohmann::json value,
           nlohmann::json* instructions) const;
  void SetTrace(const std::string& name, const char* field, nlohmann::json value,
                nlohmann::json* instructions) const;
  void SetType(const std::string& name, const char* type, nlohmann::json* instructions) const;
  void BeginSequence(const std::string& name, double value, int64_t step,
                     nlohmann::json* instructions);

  const std::string run_;
  const std::string meta_;
  const std::string sequences_;
  Omissions* const omissions_;
  std::map<std::string, Sequence> by_name_;
  bool context_known_ = false;
};

}  // namespace accel::tracking::aim

#endif  // ACCEL_CORE_TRACKING_AIM_SEQUENCES_H_
