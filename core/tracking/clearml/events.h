#ifndef ACCEL_CORE_TRACKING_CLEARML_EVENTS_H_
#define ACCEL_CORE_TRACKING_CLEARML_EVENTS_H_

#include <string>
#include <vector>

#include "core/tracking/omissions.h"
#include "core/tracking/tracker.h"
#include "nlohmann/json.hpp"

namespace accel::tracking::clearml {

// What clearml.Task.init is told.
struct TaskOptions {
  std::string project;
  std::string name;
  std::vector<std::string> tags;
  std::string comment;
  // A system tag that no other job's task has.
  std::string mark;
};

// Appends a row's events for `task`, as Accelerate reports them: a number is a scalar whose title
// is the key without `eval_`, `test_` or `train_` in front and whose series is that word, else
// `train` (so that `loss` and `train_loss` are one series, of which a step has the later key's
// value); a row without a step is single values. Texts, maps, and the NaN and infinities that
// ClearML has no value for are left out.
void AddEvents(const LogCall& call, const std::string& task, nlohmann::json* events,
               Omissions* omissions);

// `configuration` of a task: the job's values as the section General.
nlohmann::json Configuration(const ConfigMap& values);

}  // namespace accel::tracking::clearml

#endif  // ACCEL_CORE_TRACKING_CLEARML_EVENTS_H_
