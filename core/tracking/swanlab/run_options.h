#ifndef ACCEL_CORE_TRACKING_SWANLAB_RUN_OPTIONS_H_
#define ACCEL_CORE_TRACKING_SWANLAB_RUN_OPTIONS_H_

#include <string>
#include <vector>

namespace accel::tracking::swanlab {

// What swanlab.init is told. Empty fields are left to the service.
struct RunOptions {
  std::string project;
  std::string workspace;
  bool is_public = false;
  std::string experiment_name;
  std::string description;
  std::vector<std::string> tags;
  std::string group;
  std::string job_type;
  // The same in every process that feeds the job's run.
  std::string id;
};

}  // namespace accel::tracking::swanlab

#endif  // ACCEL_CORE_TRACKING_SWANLAB_RUN_OPTIONS_H_
