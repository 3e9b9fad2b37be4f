#ifndef ACCEL_CORE_TRACKING_SWANLAB_POINTS_H_
#define ACCEL_CORE_TRACKING_SWANLAB_POINTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/tracking/omissions.h"
#include "core/tracking/tracker.h"

namespace accel::tracking::swanlab {

// A value as SwanLab holds it.
struct Point {
  std::string key;
  int64_t step = 0;
  absl::Time time;
  // NaN and infinities as they are.
  double value = 0;
};

// Makes rows into points by SwanLab's rules: maps become `<key>/<name>`; a text that is a number
// counts as one and every other text is left out; "." and "/" are cut off both ends of a key and
// what is beyond 512 characters; keys with control characters, empty ones and those of SwanLab's
// own are left out; a row without a step has the one after the highest. SwanLab keeps the first
// value of a key and step, so a point whose step is not above its key's last one is passed over.
class Points {
 public:
  explicit Points(Omissions* omissions) : omissions_(omissions) {}

  // The run holds `key` up to `step`.
  void Held(const std::string& key, int64_t step);

  // The points of `calls` that the run does not hold yet, in order.
  std::vector<Point> Of(const std::vector<LogCall>& calls) const;

  // The run holds them now.
  void Hold(const std::vector<Point>& points);

  // Keys that the run holds.
  const std::map<std::string, int64_t>& last_steps() const { return last_steps_; }

 private:
  Omissions* const omissions_;
  std::map<std::string, int64_t> last_steps_;
  int64_t highest_step_ = -1;
};

// `FRAMEWORK` beside the job's values, as Accelerate adds it: {key: {value, sort, desc}}.
std::string ConfigText(const ConfigMap& values);

}  // namespace accel::tracking::swanlab

#endif  // ACCEL_CORE_TRACKING_SWANLAB_POINTS_H_
