// Writes a run through the TensorBoard tracker, for tests that read it with other programs.
//
//   write_tensorboard_run FOLDER PROJECT < SCRIPT
//
// SCRIPT is one JSON object a line:
//   {"start": null | STEP}                     a new tracker, as a new process would make it
//   {"config": {NAME: bool | number | text | null}}
//   {"log": {NAME: number | "nan" | "inf" | {"text": TEXT} | {NAME: number}}, "step": N, "time": S}
//   {"finish": "succeeded" | "failed" | "cancelled"}
// Each line is carried out before the next is read and answered by "ok". Exits with 1 and a message
// at the first error.

#include <iostream>
#include <memory>
#include <string>

#include "core/base/status_macros.h"
#include "core/tracking/factory.h"
#include "nlohmann/json.hpp"

namespace accel::tracking {
namespace {

using nlohmann::json;

ConfigValue ToConfigValue(const json& value) {
  if (value.is_null()) return {};
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  return value.get<std::string>();
}

accel::v1::MetricValue ToMetricValue(const json& value) {
  accel::v1::MetricValue metric;
  if (value.is_number()) {
    metric.set_number(value.get<double>());
  } else if (value.is_string()) {
    metric.set_number(std::stod(value.get<std::string>()));
  } else if (value.contains("text")) {
    metric.set_text(value["text"].get<std::string>());
  } else {
    metric.mutable_map();
    for (const auto& [name, number] : value.items()) {
      (*metric.mutable_map()->mutable_values())[name] = number.get<double>();
    }
  }
  return metric;
}

RunOutcome ToOutcome(const std::string& text) {
  if (text == "succeeded") return RunOutcome::kSucceeded;
  return text == "failed" ? RunOutcome::kFailed : RunOutcome::kCancelled;
}

class Driver {
 public:
  Driver(std::string folder, std::string project) {
    context_.folder = std::move(folder);
    context_.project = std::move(project);
  }

  absl::Status Do(const json& line) {
    if (line.contains("start")) return Start(line["start"]);
    if (tracker_ == nullptr) return absl::InvalidArgumentError("start comes first");
    if (line.contains("config")) {
      ConfigMap values;
      for (const auto& [name, value] : line["config"].items()) values[name] = ToConfigValue(value);
      return tracker_->StoreInitConfiguration(values);
    }
    if (line.contains("log")) return Log(line);
    return tracker_->Finish(ToOutcome(line.at("finish").get<std::string>()));
  }

 private:
  absl::Status Start(const json& step) {
    accel::v1::TrackerSpec spec;
    spec.mutable_tensorboard();
    ACCEL_ASSIGN_OR_RETURN(tracker_, MakeTracker(spec, context_));
    return tracker_->Start(step.is_null() ? std::nullopt
                                          : std::optional<int64_t>(step.get<int64_t>()));
  }

  absl::Status Log(const json& line) {
    LogCall call;
    call.sequence = ++sequence_;
    call.time = absl::UnixEpoch() + absl::Seconds(line.at("time").get<double>());
    call.step = line.at("step").get<int64_t>();
    for (const auto& [name, value] : line["log"].items()) call.values[name] = ToMetricValue(value);
    return tracker_->Log({call});
  }

  TrackerContext context_;
  std::unique_ptr<Tracker> tracker_;
  int64_t sequence_ = 0;
};

}  // namespace
}  // namespace accel::tracking

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: write_tensorboard_run FOLDER PROJECT < SCRIPT\n";
    return 2;
  }
  accel::tracking::Driver driver(argv[1], argv[2]);
  std::string line;
  while (std::getline(std::cin, line)) {
    const absl::Status status = driver.Do(nlohmann::json::parse(line));
    if (!status.ok()) {
      std::cerr << status << "\n";
      return 1;
    }
    std::cout << "ok" << std::endl;
  }
  return 0;
}
